package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// The late part: how long a server goes on saying what isn't so any more.
const (
	lateRounds = 5               // of each server; one that is slow has one
	slow       = 5 * time.Second // a change that shows later than this isn't measured again
	// apart are two changes at least: each is to be a lone one.
	apart = 100 * time.Millisecond
)

// lateness is what one server made of one kind of change, round by round.
type lateness struct {
	after []time.Duration // from the change to the first new answer
	old   []int           // answers after the change that didn't know of it
}

// lateRow is one server with one configuration, a lateness for each change.
type lateRow struct {
	server, flavour string
	kinds           []lateness
}

// late measures how late a change shows: each server is asked for a name once a
// millisecond while the object behind it changes in the server's source.
func (b *bench) late(ctx context.Context) error {
	printLateHead()
	for _, flavour := range []string{cached, kubeadm, plain} {
		if !wanted(b.o.flavours, flavour) {
			continue
		}
		var rows []*lateRow
		for _, name := range []string{peer, viaAPI, signpost} {
			row, err := b.lateRow(ctx, name, flavour)
			if err != nil {
				return fmt.Errorf("changes, %s, %s: %w", name, flavour, err)
			}
			row.print()
			rows = append(rows, row)
		}
		printLateRatio(rows[0], rows[1])
	}
	return nil
}

// lateRow measures one server. What is going to change is in the source before
// the server starts, so that nobody asks for a name too early.
func (b *bench) lateRow(ctx context.Context, name, flavour string) (*lateRow, error) {
	var rounds [lateRounds][]change
	for i := range rounds {
		rounds[i] = changes(b.lateRounds)
		b.lateRounds++
		for _, c := range rounds[i] {
			if err := b.put(c.before...); err != nil {
				return nil, err
			}
		}
	}
	p, err := b.server(ctx, name, flavour)
	if err != nil {
		return nil, err
	}
	defer b.end(p)
	row := &lateRow{server: name, flavour: flavour, kinds: make([]lateness, len(rounds[0]))}
	for _, round := range rounds {
		if err := b.lateRound(ctx, p, row, round); err != nil {
			return nil, err
		}
		if row.isSlow() {
			break
		}
	}
	return row, nil
}

// lateRound makes one change of each kind, and follows all at the same time.
func (b *bench) lateRound(ctx context.Context, p *process, row *lateRow, round []change) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, c := range round {
		g.Go(func() error {
			time.Sleep(time.Duration(i+1) * apart)
			after, old, err := b.follow(ctx, p.port, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.kind, err)
			}
			l := &row.kinds[i] // nobody else's
			l.after, l.old = append(l.after, after), append(l.old, old)
			return nil
		})
	}
	return g.Wait() //nolint:wrapcheck // wrapped above
}

// isSlow reports whether a change has shown too late to look again.
func (r *lateRow) isSlow() bool {
	for i := range r.kinds {
		for _, after := range r.kinds[i].after {
			if after > slow {
				return true
			}
		}
	}
	return false
}
