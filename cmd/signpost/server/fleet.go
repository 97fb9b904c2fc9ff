package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"signpost/cmd/signpost/dataplane"
	"signpost/vip"
)

// fleet are the backends that are not in use any more but not gone either. A
// change of mode must not lose a connection: what the old mode made stays until
// the new one's rules are in, and connections that the old one carries itself
// stay until they or the process end.
//
//	in use ──superseded──> waiting ──retired──> kept ──> closed
//	   ^                      │                  │
//	   └──────────────── used again ─────────────┘
type fleet struct {
	log *slog.Logger

	mu      sync.Mutex
	waiting []vip.Backend // to be retired
	kept    []*retired    // to be closed in the end
}

// retired is a backend that still carries connections.
type retired struct {
	backend vip.Backend
	drain   part // removes what no connection uses any more, if the backend can
}

// find returns the backend of a mode that is still there; nil: none is.
func (f *fleet) find(mode string) vip.Backend {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Concat(f.waiting, f.carrying())
	if at := slices.IndexFunc(all, func(b vip.Backend) bool { return b.Name() == mode }); at >= 0 {
		return all[at]
	}
	return nil
}

func (f *fleet) carrying() []vip.Backend {
	list := make([]vip.Backend, len(f.kept))
	for i, r := range f.kept {
		list[i] = r.backend
	}
	return list
}

// supersede takes a backend that one of another mode is to replace; an empty
// successor: none is.
func (f *fleet) supersede(ctx context.Context, b vip.Backend, successor string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d, ok := dataplane.Drains(b, successor); ok && successor != "" {
		if err := d.Yield(ctx); err != nil {
			f.log.Warn("this node's own connections may be cut when the old mode ends", "mode", b.Name(), "err", err)
		}
	}
	f.waiting = append(f.waiting, b)
}

// activate gives a backend out that is in use again.
func (f *fleet) activate(b vip.Backend) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = slices.DeleteFunc(f.waiting, func(other vip.Backend) bool { return other == b })
	f.kept = slices.DeleteFunc(f.kept, func(r *retired) bool {
		if r.backend == b {
			r.drain.stop()
		}
		return r.backend == b
	})
}

// retire has the superseded backends make way for the mode that has taken over,
// and returns the modes whose objects have to stay.
func (f *fleet) retire(ctx context.Context, successor string) map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endDraining(ctx, successor)
	for _, b := range f.waiting {
		keep, err := dataplane.Retire(ctx, b, successor)
		if err != nil {
			f.log.Error("ending the old dataplane", "err", err)
		}
		if keep {
			f.keep(b, successor)
		}
		f.log.Info("dataplane replaced", "before", b.Name())
	}
	keep := dataplane.Kept(successor, f.waiting, f.carrying())
	f.waiting = nil
	return keep
}

// inherit takes what an earlier process's backends still carry, and adds their
// modes to those whose objects have to stay.
func (f *fleet) inherit(list []dataplane.Drainer, successor string, keep map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range list {
		f.keep(d, successor)
		keep[d.Name()] = true
		f.log.Info("connections of an earlier dataplane go on", "mode", d.Name())
	}
}

// keep lets a backend carry its connections on.
func (f *fleet) keep(b vip.Backend, successor string) {
	r := &retired{backend: b}
	if d, ok := dataplane.Drains(b, successor); ok {
		r.drain.run(func(ctx context.Context) {
			switch err := d.Drain(ctx); {
			case ctx.Err() != nil: // the process ends, or the mode is in use again
			case err != nil:
				f.log.Error("removing the old dataplane", "mode", b.Name(), "err", err)
			default:
				f.log.Info("the old dataplane's connections have ended", "mode", b.Name())
			}
		})
	}
	f.kept = append(f.kept, r)
}

// endDraining removes kept backends that a new mode can't be beside.
func (f *fleet) endDraining(ctx context.Context, successor string) {
	f.kept = slices.DeleteFunc(f.kept, func(r *retired) bool {
		_, drains := r.backend.(dataplane.Drainer)
		if _, ok := dataplane.Drains(r.backend, successor); !drains || ok {
			return false
		}
		r.drain.stop()
		f.end(ctx, r.backend)
		return true
	})
}

func (f *fleet) end(ctx context.Context, b vip.Backend) {
	if err := dataplane.Remove(ctx, b); err != nil {
		f.log.Error("ending the old dataplane", "mode", b.Name(), "err", err)
	}
}

// remove takes away all that the backends made: there is no dataplane any more.
func (f *fleet) remove(ctx context.Context) {
	for _, b := range f.empty() {
		f.end(ctx, b)
	}
}

// close gives up what the backends run in this process. What they made in the
// kernel stays.
func (f *fleet) close() error {
	var errs []error
	for _, b := range f.empty() {
		errs = append(errs, dataplane.Close(b))
	}
	return errors.Join(errs...)
}

// empty returns all backends, none of which drains any more.
func (f *fleet) empty() []vip.Backend {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Concat(f.waiting, f.carrying())
	for _, r := range f.kept {
		r.drain.stop()
	}
	f.waiting, f.kept = nil, nil
	return all
}
