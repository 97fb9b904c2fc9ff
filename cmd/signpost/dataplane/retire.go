package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"signpost/vip"
)

// Drainer is a backend that carries connections in the kernel by other means
// than the modes that translate addresses. Beside one of these it can go on
// until they end; see vip/ipvs.
type Drainer interface {
	vip.Backend
	// Yield prepares for the other mode's first rules.
	Yield(ctx context.Context) error
	// Quiesce takes no new connections, once those rules are in, and reports
	// whether there may be old ones.
	Quiesce(ctx context.Context) (carries bool, err error)
	// Drain returns nil when all connections have ended, or had time enough,
	// and nothing of the backend is left.
	Drain(ctx context.Context) error
}

// Drains returns a backend whose connections can go on beside the mode that
// takes over. Mode userspace can't be beside it: packets would not reach its
// sockets.
func Drains(backend vip.Backend, successor string) (Drainer, bool) {
	d, ok := backend.(Drainer)
	return d, ok && successor != userspaceMode
}

// Retire has a backend make way for the mode that has taken over, and reports
// whether it has to be kept and closed later, because it still carries
// connections itself. Those that the kernel translates live on in any mode.
func Retire(ctx context.Context, backend vip.Backend, successor string) (keep bool, err error) {
	if d, ok := Drains(backend, successor); ok {
		if keep, err = d.Quiesce(ctx); err != nil || !keep {
			keep, err = false, errors.Join(err, Remove(ctx, backend))
		}
	} else if r, ok := backend.(interface{ Retire(context.Context) error }); ok {
		keep, err = true, r.Retire(ctx)
	} else {
		if successor == userspaceMode {
			err = hold()
		}
		err = errors.Join(err, Remove(ctx, backend))
	}
	if err != nil {
		err = fmt.Errorf("ending mode %s: %w", backend.Name(), err)
	}
	return keep, err
}

// Leftovers returns backends of other modes for connections that an earlier
// process's may still carry. They are quiet already.
func Leftovers(ctx context.Context, mode string, keep map[string]bool, o Options, log *slog.Logger) []Drainer {
	var list []Drainer
	for _, m := range makers {
		if keep[m.mode] {
			continue
		}
		backend := m.make(o, log)
		if d, ok := Drains(backend, mode); ok {
			if carries, err := d.Quiesce(ctx); err == nil && carries {
				list = append(list, d)
				continue
			}
		}
		_ = Close(backend) // what can't be done now CleanupOthers tells
	}
	return list
}

// Remove takes away all that a backend made, and closes it.
func Remove(ctx context.Context, backend vip.Backend) error {
	return errors.Join(backend.Cleanup(ctx), Close(backend))
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
