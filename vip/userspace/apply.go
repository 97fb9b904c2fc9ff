package userspace

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	b.want = want
	r := &round{b: b, failed: make(map[vip.Frontend]error)}
	var err error
	if have == nil || !b.looked || !have.Node().Equal(want.Node()) || r.capturesOthers(have) {
		err = r.everything(ctx)
	} else {
		err = r.changes(ctx, have)
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

// capturesOthers reports whether a node port address becomes or ceases to be a
// cluster address: that touches every node port.
func (r *round) capturesOthers(have *vip.State) bool {
	for _, a := range r.b.node.Load().NodePortAddrs {
		if have.Kinds(a).Captured() != r.b.want.Kinds(a).Captured() {
			return true
		}
	}
	return false
}

// everything looks at the kernel and passes over all frontends.
func (r *round) everything(ctx context.Context) error {
	b, want := r.b, r.b.want
	b.node.Store(newNode(want.Node()))
	if err := b.addrs.look(b.node.Load().ServiceCIDRs); err != nil {
		b.log.Warn("not refusing cluster addresses that no service has", "err", err)
	}
	b.looked = true
	for v := range want.All() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("applying: %w", err)
		}
		r.set(v)
	}
	for f := range b.servers {
		if want.Get(f) == nil {
			r.gone = append(r.gone, f)
		}
	}
	r.finish()
	return b.addrs.sweep()
}

func (r *round) changes(ctx context.Context, have *vip.State) error {
	for was, is := range vip.Changes(have, r.b.want) {
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
		if r.b.want.Get(f) == nil {
			r.gone = append(r.gone, f)
		}
	}
	r.finish()
	return nil
}

func (r *round) finish() {
	for _, f := range r.gone {
		s, ok := r.b.servers[f]
		if !ok {
			continue
		}
		s.stop()
		delete(r.b.servers, f)
		if nodePort := r.nodePortAt(f); nodePort != nil {
			r.set(nodePort)
		}
	}
	if len(r.gone) == 0 {
		return
	}
	for _, v := range r.blocked {
		r.set(v)
	}
}

// nodePortAt returns the node port that answers on a frontend's address and
// port as well, or would if the frontend were not there; nil: none.
func (r *round) nodePortAt(f vip.Frontend) *vip.VirtualServer {
	if f.IsNodePort() || !slices.Contains(r.b.node.Load().NodePortAddrs, f.Addr) {
		return nil
	}
	return r.b.want.Get(vip.NodePortFrontend(f.Is6(), f.Port, f.Protocol))
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
		if nodePort := r.nodePortAt(v.Frontend); nodePort != nil {
			r.set(nodePort) // it makes way
		}
	}
	err := s.set(v)
	if err == nil {
		delete(r.failed, v.Frontend)
		return
	}
	r.failed[v.Frontend] = err
	if errors.Is(err, unix.EADDRINUSE) {
		r.blocked = append(r.blocked, v)
	}
}
