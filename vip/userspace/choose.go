package userspace

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"signpost/vip"
)

// chooser spreads a virtual server's clients over its endpoints: round robin,
// from a random start, but for clients that affinity ties to one.
type chooser struct {
	turn   [2]atomic.Uint64 // per vip.Set
	sticky sticky
}

func newChooser(maxClients int) *chooser {
	c := &chooser{}
	for i := range c.turn {
		c.turn[i].Store(rand.Uint64N(1 << 32))
	}
	c.sticky.max = maxClients
	return c
}

// first returns the index in list, which must not be empty, of the endpoint to
// try first.
func (c *chooser) first(v *vip.VirtualServer, set vip.Set, client netip.Addr, list []vip.Endpoint) int {
	next := func() int { return int((c.turn[set].Add(1) - 1) % uint64(len(list))) }
	if v.Affinity > 0 {
		return c.sticky.choose(client, list, v.Affinity, next)
	}
	return next()
}

// took records that the client is with an endpoint now.
func (c *chooser) took(v *vip.VirtualServer, client netip.Addr, e netip.AddrPort) {
	if v.Affinity > 0 {
		c.sticky.set(client, e, v.Affinity)
	}
}

// find returns an endpoint's place in a set, which is sorted.
func find(list []vip.Endpoint, e netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(list, e, func(have vip.Endpoint, e netip.AddrPort) int { return have.AddrPort.Compare(e) })
}

// sticky remembers each client's endpoint (P-16). An entry is good until its
// timeout after the client's last new connection, and only while the endpoint
// is in the set: the asker checks that. Entries are in the order of their last
// use, which is the order in which they expire.
type sticky struct {
	max int
	mu  sync.Mutex
	lru *simplelru.LRU[netip.Addr, tie]
}

type tie struct {
	endpoint netip.AddrPort
	since    time.Time
}

// choose returns the index of the client's endpoint in list, or else the next
// one, which is the client's from now on: of several connections that a client
// opens at once, the first decides for all.
func (s *sticky) choose(client netip.Addr, list []vip.Endpoint, timeout time.Duration, next func() int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tied, ok := s.get(client, timeout); ok {
		if i, found := find(list, tied); found {
			return i
		}
	}
	i := next()
	s.add(client, list[i].AddrPort, timeout)
	return i
}

// get returns the client's endpoint, for those who hold the lock.
func (s *sticky) get(client netip.Addr, timeout time.Duration) (netip.AddrPort, bool) {
	if s.lru == nil {
		return netip.AddrPort{}, false
	}
	t, ok := s.lru.Peek(client)
	return t.endpoint, ok && time.Since(t.since) < timeout
}

func (s *sticky) set(client netip.Addr, e netip.AddrPort, timeout time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(client, e, timeout)
}

// add is set, for those who hold the lock.
func (s *sticky) add(client netip.Addr, e netip.AddrPort, timeout time.Duration) {
	if s.lru == nil {
		lru, err := simplelru.NewLRU[netip.Addr, tie](s.max, nil)
		if err != nil {
			return // only a size below 1 is an error; Config has none
		}
		s.lru = lru
	}
	s.expire(timeout)
	s.lru.Add(client, tie{e, time.Now()})
}

func (s *sticky) expire(timeout time.Duration) {
	for {
		_, oldest, ok := s.lru.GetOldest()
		if !ok || time.Since(oldest.since) < timeout {
			return
		}
		s.lru.RemoveOldest()
	}
}

// clear forgets everybody: affinity is off.
func (s *sticky) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru = nil
}
