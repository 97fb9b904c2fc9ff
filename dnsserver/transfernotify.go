package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Limits of notifications: changes within notifyInterval go as one, and one
// that nobody acknowledges is sent notifyAttempts times (RFC 1996 3.5).
const (
	notifyInterval = 2 * time.Second
	notifyAttempts = 3
	notifyTimeout  = 2 * time.Second
)

// Notify tells those who may transfer zones that a zone has changed, at the
// start and for each new serial, until the context ends. It is for one
// goroutine, beside [Cluster.Run].
func (c *Cluster) Notify(ctx context.Context, rules []TransferConfig) {
	var told uint32
	sent := false
	for {
		c.awaitSerial(ctx, told, sent)
		if ctx.Err() != nil {
			return
		}
		told, sent = c.Serial(), true
		c.notifyAll(ctx, rules)
		pause := time.NewTimer(notifyInterval)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// awaitSerial waits for zones that are complete and have another serial than
// the one that was told.
func (c *Cluster) awaitSerial(ctx context.Context, told uint32, sent bool) {
	for {
		changed := c.changes.wait()
		if v := c.view.Load(); v.snap.Synced && (!sent || v.serial != told) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// notifyAll sends a notification for each zone of each rule, all at once.
func (c *Cluster) notifyAll(ctx context.Context, rules []TransferConfig) {
	v := c.view.Load()
	var wg sync.WaitGroup
	for i := range rules {
		for _, z := range v.conf.zones {
			_, within := closestZone(z.name, canonicalNames(rules[i].Zones))
			if len(rules[i].Zones) > 0 && !within {
				continue
			}
			for _, to := range rules[i].To {
				wg.Go(func() { c.notify(ctx, v, z, to, rules[i].Source) })
			}
		}
	}
	wg.Wait()
}

// notify sends one notification until it is acknowledged.
func (c *Cluster) notify(ctx context.Context, v *view, z *clusterZone, to netip.AddrPort, source netip.Addr) {
	m := new(dns.Msg).SetNotify(z.name)
	m.Answer = []dns.RR{recordWriter{view: v, owner: z.name, zone: z}.soa()}
	client := &dns.Client{Timeout: notifyTimeout, Dialer: &net.Dialer{Timeout: notifyTimeout}}
	if source.IsValid() {
		client.Dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	if to.Port() == 0 {
		to = netip.AddrPortFrom(to.Addr(), dnsPort)
	}
	var err error
	for range notifyAttempts {
		if _, _, err = client.ExchangeContext(ctx, m, to.String()); err == nil || ctx.Err() != nil {
			return
		}
	}
	c.log.Warn("nobody acknowledged a notification", "zone", z.name, "to", to, "err", err)
}

// dnsPort is where DNS servers listen.
const dnsPort = 53

// signal wakes everyone who waits for the next change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that is closed at the next change.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// wake closes it.
func (s *signal) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
