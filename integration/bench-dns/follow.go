package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/miekg/dns"
)

const (
	askEvery = time.Millisecond
	settled  = 200 * time.Millisecond // of old answers before a change, of new ones after it
	giveUp   = 40 * time.Second       // waiting for a change to show
)

// follow asks for a change's name all the while, makes the change, and returns
// how long it took to show and how many answers were old by then.
func (b *bench) follow(ctx context.Context, port int, c change) (after time.Duration, old int, err error) {
	conn, err := dns.Dial("udp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return 0, 0, fmt.Errorf("asking: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is buffered
	a := &asker{conn: conn, name: c.name}
	if _, err := a.until(ctx, c.was, settled); err != nil {
		return 0, 0, fmt.Errorf("before the change: %w", err)
	}
	// What was answered so far has the time between two questions to be
	// forgotten: the change is made at once.
	changed := time.Now()
	if err := b.make(c); err != nil {
		return 0, 0, err
	}
	a.other = 0
	first, err := a.until(ctx, c.is, settled)
	if err != nil {
		return 0, 0, fmt.Errorf("after the change: %w", err)
	}
	return first.Sub(changed), a.other, nil
}

// asker asks for the addresses of one name, over and over.
type asker struct {
	conn  *dns.Conn
	name  string
	other int // answers that were not the ones waited for
}

// until asks until every answer of a span of time is the address, and returns
// when the first of these was read. The invalid address stands for NXDOMAIN.
func (a *asker) until(ctx context.Context, want netip.Addr, span time.Duration) (first time.Time, err error) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for limit := time.Now().Add(giveUp); ; {
		got, err := a.ask()
		now := time.Now()
		switch {
		case err != nil:
			return first, err
		case got != want:
			a.other++
			first = time.Time{}
		case first.IsZero():
			first = now
		case now.Sub(first) >= span:
			return first, nil
		}
		if now.After(limit) {
			return first, errors.New("it doesn't show")
		}
		select {
		case <-ctx.Done():
			return first, ctx.Err() //nolint:wrapcheck // interrupted
		case <-tick.C:
		}
	}
}

// ask asks once. What is neither one address nor NXDOMAIN is an error.
func (a *asker) ask() (netip.Addr, error) {
	q := new(dns.Msg).SetQuestion(a.name, dns.TypeA)
	_ = a.conn.SetDeadline(time.Now().Add(2 * time.Second)) // the read will tell
	if err := a.conn.WriteMsg(q); err != nil {
		return netip.Addr{}, fmt.Errorf("asking: %w", err)
	}
	m, err := a.conn.ReadMsg()
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("asking: %w", err)
	case m.Rcode == dns.RcodeNameError:
		return netip.Addr{}, nil
	case m.Id != q.Id || m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1:
		return netip.Addr{}, fmt.Errorf("asking for %q: got %s with %d answers", a.name, dns.RcodeToString[m.Rcode], len(m.Answer))
	}
	record, ok := m.Answer[0].(*dns.A)
	if !ok {
		return netip.Addr{}, fmt.Errorf("asking for %q: got %s", a.name, m.Answer[0])
	}
	addr, _ := netip.AddrFromSlice(record.A)
	return addr.Unmap(), nil
}
