package viptest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"signpost/vip"
)

// The errors with which a kernel refuses an operation.
var (
	errExists  = errors.New("file exists")
	errMissing = errors.New("no such file or directory")
)

// rule is a virtual server as the kernel of the fake holds it: compiled, so
// that the way from a packet to an endpoint is not the model's.
type rule struct {
	foreign   bool
	captures  bool // the whole address is the dataplane's
	allow     []netip.Prefix
	deny      bool // whoever is not in allow
	affinity  time.Duration
	scheduler string
	actions   [len(vip.Sources)]action
}

type action struct {
	to    []netip.AddrPort
	snat  bool
	empty Action
}

func compile(v *vip.VirtualServer) rule {
	r := rule{captures: !v.Kind.External(), allow: v.SourceRanges, deny: v.Restricted, affinity: v.Affinity, scheduler: v.Scheduler}
	for source, route := range v.Routes {
		a := action{snat: route.SNAT, empty: Reject}
		if route.Empty == vip.Drop {
			a.empty = Drop
		}
		for _, e := range v.Endpoints(route.Set) {
			a.to = append(a.to, e.AddrPort)
		}
		r.actions[source] = a
	}
	return r
}

func (r rule) equal(o rule) bool {
	same := r.foreign == o.foreign && r.captures == o.captures && r.deny == o.deny && r.affinity == o.affinity &&
		r.scheduler == o.scheduler && slices.Equal(r.allow, o.allow)
	for i, a := range r.actions {
		b := o.actions[i]
		same = same && a.snat == b.snat && a.empty == b.empty && slices.Equal(a.to, b.to)
	}
	return same
}

// Operation is one call to the fake's kernel.
type Operation struct {
	Verb     string // "add", "replace", "delete", "list" or "configure"
	Frontend vip.Frontend
}

// kernel holds rules and refuses what a kernel refuses.
type kernel struct {
	mu         sync.Mutex
	rules      map[vip.Frontend]rule
	node       *vip.Node
	operations []Operation
	fail       func(Operation) error
}

// do runs one operation under the lock, or lets it fail.
func (k *kernel) do(op Operation, run func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.operations = append(k.operations, op)
	if k.fail != nil {
		if err := k.fail(op); err != nil {
			return fmt.Errorf("%s %s: %w", op.Verb, op.Frontend, err)
		}
	}
	if err := run(); err != nil {
		return fmt.Errorf("%s %s: %w", op.Verb, op.Frontend, err)
	}
	return nil
}

func (k *kernel) add(f vip.Frontend, r rule) error {
	return k.do(Operation{"add", f}, func() error {
		if _, exists := k.rules[f]; exists {
			return errExists
		}
		k.rules[f] = r
		return nil
	})
}

func (k *kernel) replace(f vip.Frontend, r rule) error {
	return k.do(Operation{"replace", f}, func() error {
		if old, exists := k.rules[f]; !exists || old.foreign {
			return errMissing
		}
		k.rules[f] = r
		return nil
	})
}

func (k *kernel) remove(f vip.Frontend) error {
	return k.do(Operation{"delete", f}, func() error {
		if old, exists := k.rules[f]; !exists || old.foreign {
			return errMissing
		}
		delete(k.rules, f)
		return nil
	})
}

func (k *kernel) configure(n *vip.Node) error {
	return k.do(Operation{Verb: "configure"}, func() error { k.node = n; return nil })
}

// list returns our rules and the node that they were made for.
func (k *kernel) list() (own map[vip.Frontend]rule, node *vip.Node, err error) {
	err = k.do(Operation{Verb: "list"}, func() error {
		own, node = map[vip.Frontend]rule{}, k.node
		for f, r := range k.rules {
			if !r.foreign {
				own[f] = r
			}
		}
		return nil
	})
	return own, node, err
}

// find returns the rule that a packet meets.
func (k *kernel) find(to vip.Frontend) (rule, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, ok := k.rules[to]; ok && !to.IsNodePort() {
		return r, true
	}
	if k.node == nil || k.capturesLocked(to.Addr) || !slices.Contains(k.node.NodePortAddrs, to.Addr) {
		return rule{}, false
	}
	r, ok := k.rules[vip.NodePortFrontend(to.Is6(), to.Port, to.Protocol)]
	return r, ok
}

func (k *kernel) captures(a netip.Addr) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.capturesLocked(a)
}

func (k *kernel) capturesLocked(a netip.Addr) bool {
	for f, r := range k.rules {
		if f.Addr == a && r.captures {
			return true
		}
	}
	return false
}

// inServiceRange reports whether nobody but the dataplane has the address.
func (k *kernel) inServiceRange(a netip.Addr) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.node != nil && slices.ContainsFunc(k.node.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
}
