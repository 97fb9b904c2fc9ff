package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"signpost/vip"
)

// Retire has a backend make way for the mode that has taken over, and reports
// whether it has to be kept and closed later, because it still carries
// connections itself. Those that the kernel translates live on in any mode.
func Retire(ctx context.Context, backend vip.Backend, successor string) (keep bool, err error) {
	if r, ok := backend.(interface{ Retire(context.Context) error }); ok {
		keep, err = true, r.Retire(ctx)
	} else {
		if successor == userspaceMode {
			err = hold()
		}
		err = errors.Join(err, backend.Cleanup(ctx), Close(backend))
	}
	if err != nil {
		err = fmt.Errorf("ending mode %s: %w", backend.Name(), err)
	}
	return keep, err
}

// CleanupOthers removes what the other modes have left here, whichever process
// made it (L-02). What can't be removed is logged, and is in nobody's way that
// could not have made it either.
func CleanupOthers(ctx context.Context, keep map[string]bool, log *slog.Logger) {
	for _, m := range makers {
		if keep[m.mode] {
			continue
		}
		switch err := m.cleanup(ctx, log); {
		case err == nil:
		case errors.Is(err, fs.ErrPermission):
			log.Debug("leftovers of another mode, if there are any, stay", "mode", m.mode, "error", err)
		default:
			log.Warn("leftovers of another mode could not be removed", "mode", m.mode, "error", err)
		}
	}
	if !keep[held] {
		if err := letGo(); err != nil {
			log.Debug("removing what holds old connections", "error", err)
		}
	}
}

// held stands for the table that keeps old connections translated, among the
// modes that are to be kept.
const held = "old connections"

// Kept are the modes whose objects have to stay when a mode has taken over from
// others: its own, and those of backends that still carry connections.
func Kept(mode string, replaced, carrying []vip.Backend) map[string]bool {
	keep := map[string]bool{mode: true, held: mode == userspaceMode && len(replaced) > 0}
	for _, b := range carrying {
		keep[b.Name()] = true
	}
	return keep
}

const userspaceMode = "userspace"
