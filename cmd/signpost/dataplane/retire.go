package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"signpost/vip"
)

// Retire has a backend make way for another one that has taken over, and
// reports whether it has to be kept and closed later, because connections that
// it has accepted or translated before still need it:
//
//   - A backend that carries connections itself knows how to retire.
//   - The kernel goes on translating a connection as long as anybody has it
//     translate. A mode without the kernel doesn't, so before one the rules are
//     emptied, but not removed.
func Retire(ctx context.Context, backend vip.Backend, successor string) (keep bool, err error) {
	if r, ok := backend.(interface{ Retire(context.Context) error }); ok {
		keep, err = true, r.Retire(ctx)
	} else if successor == "userspace" {
		keep, err = true, backend.Apply(ctx, nil, vip.NewState(&vip.Node{}))
	} else {
		err = errors.Join(backend.Cleanup(ctx), Close(backend))
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
}
