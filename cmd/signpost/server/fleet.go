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
// stay until the process ends.
//
//	in use ──superseded──> waiting ──retired──> kept ──> closed
//	   ^                      │                  │
//	   └──────────────── used again ─────────────┘
type fleet struct {
	log *slog.Logger

	mu      sync.Mutex
	waiting []vip.Backend // to be retired
	kept    []vip.Backend // retired, to be closed in the end
}

// find returns the backend of a mode that is still there; nil: none is.
func (f *fleet) find(mode string) vip.Backend {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Concat(f.waiting, f.kept)
	if at := slices.IndexFunc(all, func(b vip.Backend) bool { return b.Name() == mode }); at >= 0 {
		return all[at]
	}
	return nil
}

// supersede takes a backend that another one is to replace.
func (f *fleet) supersede(b vip.Backend) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, b)
}

// activate gives a backend out that is in use again.
func (f *fleet) activate(b vip.Backend) {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := func(other vip.Backend) bool { return other == b }
	f.waiting, f.kept = slices.DeleteFunc(f.waiting, is), slices.DeleteFunc(f.kept, is)
}

// retire has the superseded backends make way for the mode that has taken over,
// and returns the modes whose objects have to stay.
func (f *fleet) retire(ctx context.Context, successor string) map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.waiting {
		keep, err := dataplane.Retire(ctx, b, successor)
		if err != nil {
			f.log.Error("ending the old dataplane", "err", err)
		}
		if keep {
			f.kept = append(f.kept, b)
		}
		f.log.Info("dataplane replaced", "before", b.Name())
	}
	keep := dataplane.Kept(successor, f.waiting, f.kept)
	f.waiting = nil
	return keep
}

// remove takes away all that the backends made: there is no dataplane any more.
func (f *fleet) remove(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range slices.Concat(f.waiting, f.kept) {
		if err := errors.Join(b.Cleanup(ctx), dataplane.Close(b)); err != nil {
			f.log.Error("ending the old dataplane", "mode", b.Name(), "err", err)
		}
	}
	f.waiting, f.kept = nil, nil
}

// close gives up what the backends run in this process. What they made in the
// kernel stays.
func (f *fleet) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, b := range slices.Concat(f.waiting, f.kept) {
		errs = append(errs, dataplane.Close(b))
	}
	f.waiting, f.kept = nil, nil
	return errors.Join(errs...)
}
