package dnsserver

import (
	"context"
	"time"

	"github.com/miekg/dns"
)

// isDown reports whether an upstream is to be passed over.
func (f *forward) isDown(up *upstream) bool {
	limit := f.conf.Health.MaxFails
	return limit > 0 && int(up.fails.Load()) >= limit
}

// failed starts to check an upstream that didn't answer, unless the query's
// own time was up: that says nothing about the upstream.
func (f *forward) failed(ctx context.Context, up *upstream) {
	if f.conf.Health.MaxFails < 0 || ctx.Err() != nil || !up.checking.CompareAndSwap(false, true) {
		return
	}
	started := f.tasks.run(func(ctx context.Context) {
		defer up.checking.Store(false)
		f.check(ctx, up)
	})
	if !started {
		up.checking.Store(false)
	}
}

// check asks an upstream until it answers, whatever it says (F1).
func (f *forward) check(ctx context.Context, up *upstream) {
	h := &f.conf.Health
	r := new(dns.Msg).SetQuestion(dns.Fqdn(h.Domain), dns.TypeNS)
	r.RecursionDesired = !h.NoRecursion
	for ctx.Err() == nil {
		if f.healthy(ctx, up, r) {
			if int(up.fails.Swap(0)) >= h.MaxFails {
				f.log.Info("upstream is up again", "upstream", up.label)
			}
			return
		}
		up.unhealthy.Inc()
		if int(up.fails.Add(1)) == h.MaxFails {
			f.log.Warn("upstream is down", "upstream", up.label)
		}
		select {
		case <-ctx.Done():
		case <-time.After(h.Interval):
		}
	}
}

// healthy asks once.
func (f *forward) healthy(ctx context.Context, up *upstream, r *dns.Msg) bool {
	ctx, cancel := context.WithTimeout(ctx, f.conf.Timeout)
	defer cancel()
	_, err := f.exchange.do(ctx, up, r, f.conf.ForceTCP)
	return err == nil
}
