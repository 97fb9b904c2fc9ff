package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// errAllDown is when nobody is left to ask.
var errAllDown = errors.New("forwarding: all upstreams are down")

// retryPause is the time between two rounds over all upstreams, from the third
// on: those that refuse at once would be hammered without it.
const retryPause = 50 * time.Millisecond

// ask tries upstreams until one answers, attempts are used up, or time is up.
func (f *forward) ask(ctx context.Context, r *dns.Msg, tcp bool) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	order, err := f.order()
	if err != nil {
		return nil, err
	}
	var last *dns.Msg
	var errs []error
	for i := 0; f.mayTry(ctx, i, len(order)); i++ {
		up := order[i%len(order)]
		reply, err := f.attempt(ctx, up, r, tcp)
		if err == nil && !slices.Contains(f.conf.Failover, reply.Rcode) {
			return reply, nil
		}
		if err == nil {
			last = reply
			if i >= len(order)-1 { // everyone was asked
				break
			}
			continue
		}
		f.failed(ctx, up)
		if len(errs) < len(order) { // later rounds say the same again
			errs = append(errs, err)
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, errors.Join(errs...)
}

// mayTry reports whether there is to be another attempt, after a pause when it
// is one of many.
func (f *forward) mayTry(ctx context.Context, i, upstreams int) bool {
	limit := orDefault(f.conf.MaxAttempts, attemptsPerUpstream*upstreams)
	if ctx.Err() != nil || limit >= 0 && i >= limit {
		return i == 0
	}
	if i < attemptsPerUpstream*upstreams || i%upstreams != 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(retryPause):
		return true
	}
}

// attempt asks one upstream once, within the timeout of an attempt.
func (f *forward) attempt(ctx context.Context, up *upstream, r *dns.Msg, tcp bool) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, f.conf.Timeout)
	defer cancel()
	start := time.Now()
	reply, err := f.exchange.do(ctx, up, r, tcp)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", up.label, err)
	}
	up.observe(reply.Rcode, time.Since(start))
	return reply, nil
}

// order returns the upstreams in the order to ask them, those that are down
// left out.
func (f *forward) order() ([]*upstream, error) {
	all := *f.upstreams.Load()
	n := len(all)
	first := 0
	switch f.conf.Policy {
	case Random:
		first = rand.IntN(n)
	case RoundRobin:
		first = int(f.turn.Add(1)-1) % n
	case Sequential:
	}
	down := slices.ContainsFunc(all, f.isDown)
	if first == 0 && !down {
		return all, nil
	}
	order := append(append(make([]*upstream, 0, n), all[first:]...), all[:first]...)
	if !down {
		return order, nil
	}
	if order = slices.DeleteFunc(order, f.isDown); len(order) > 0 {
		return order, nil
	}
	if f.conf.Health.FailFast {
		return nil, errAllDown
	}
	f.metrics.healthBroken.Inc()
	return []*upstream{all[rand.IntN(n)]}, nil
}
