package userspace

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"signpost/discovery"
	"signpost/vip"
)

// Apply is part of [vip.Backend]. The cost follows the change, unless have is
// nil or the node differs: then it is one pass over everything.
func (b *Backend) Apply(ctx context.Context, have, want *vip.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	r := &round{b: b, failed: make(map[vip.Frontend]error)}
	var err error
	if have == nil || !b.looked || !have.Node().Equal(want.Node()) {
		b.looked = true
		b.node.Store(newNode(want.Node()))
		err = r.everything(ctx, want)
	} else {
		err = r.changes(ctx, have, want)
	}
	if err != nil {
		return err
	}
	b.unsure = r.failed
	if len(r.failed) > 0 {
		return &vip.PartialError{Failed: r.failed}
	}
	return nil
}

// round is one Apply: adds first, then deletes, then once more what a deleted
// frontend's socket was in the way of.
type round struct {
	b       *Backend
	failed  map[vip.Frontend]error
	blocked []*vip.VirtualServer
	gone    []vip.Frontend
}

// everything looks at the kernel and passes over all frontends.
func (r *round) everything(ctx context.Context, want *vip.State) error {
	r.b.addrs.look()
	for v := range want.All() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("applying: %w", err)
		}
		r.set(v)
	}
	for f := range r.b.servers {
		if want.Get(f) == nil {
			r.gone = append(r.gone, f)
		}
	}
	r.finish()
	return r.b.addrs.sweep()
}

func (r *round) changes(ctx context.Context, have, want *vip.State) error {
	for was, is := range vip.Changes(have, want) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("applying: %w", err)
		}
		if is != nil {
			r.set(is)
		} else {
			r.gone = append(r.gone, was.Frontend)
		}
	}
	for f := range r.b.unsure { // not in have, yet perhaps half there
		if want.Get(f) == nil {
			r.gone = append(r.gone, f)
		}
	}
	r.finish()
	return nil
}

func (r *round) finish() {
	for _, f := range r.gone {
		if s, ok := r.b.servers[f]; ok {
			s.stop()
			delete(r.b.servers, f)
		}
	}
	if len(r.gone) == 0 {
		return
	}
	for _, v := range r.blocked {
		delete(r.failed, v.Frontend)
		r.set(v)
	}
}

// set makes one virtual server true or notes why it can't be.
func (r *round) set(v *vip.VirtualServer) {
	if v.Frontend.Protocol == discovery.SCTP {
		r.failed[v.Frontend] = errSCTP
		return
	}
	s, ok := r.b.servers[v.Frontend]
	if !ok {
		s = newServer(r.b, v.Frontend)
		r.b.servers[v.Frontend] = s
	}
	err := s.set(v)
	if err == nil {
		return
	}
	r.failed[v.Frontend] = err
	if errors.Is(err, unix.EADDRINUSE) {
		r.blocked = append(r.blocked, v)
	}
}
