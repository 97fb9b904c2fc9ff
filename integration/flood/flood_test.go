package flood

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	workers = 2
	// What is sent before anything is measured: names that fill the cache, then
	// the mix, until everything is as large as it gets, with as many queries in
	// flight as there may be. A quarter of the flood goes there too: what a
	// collected heap has resident creeps up to its highest point, and stays.
	fillCache, warmUp = 40_000, 100_000
	// limit ends it, however slow the machine.
	limit   = 10 * time.Minute
	startup = 20 * time.Second
	// mayGrow is what the collector may not have given back yet, in MiB.
	mayGrow = 32
)

// TestFlood floods signpost (A41).
func TestFlood(t *testing.T) {
	n := 100_000
	if text := os.Getenv("FLOOD"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("FLOOD: %q is no number of packets", text)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	s := startServer(t)
	awaitAnswer(ctx, t, s)
	send(ctx, t, s, (*packets).answered, fillCache, true)
	send(ctx, t, s, (*packets).next, warmUp+n/4, true)
	before, _ := s.resident(t)
	counted := s.counted(t)

	start := time.Now()
	paced := send(ctx, t, s, (*packets).next, n-n/10, true)
	all := send(ctx, t, s, (*packets).next, n/10, false)
	all.add(paced)
	took := time.Since(start)
	after, most := s.resident(t)
	t.Logf("%d datagrams in %s, %.0f/s; %d replies read; %d of %d questions lost",
		all.sent, took.Round(time.Millisecond), float64(all.sent)/took.Seconds(), all.replies, all.lost, all.questions)
	t.Logf("resident: %.1f MiB before, %.1f after, %.1f at most", before, after, most)

	if grown := after - before; grown > mayGrow {
		t.Errorf("memory grew by %.1f MiB", grown)
	}
	if paced.lost*20 > paced.questions {
		t.Errorf("%d of %d questions had no answer", paced.lost, paced.questions)
	}
	checkDrops(t, counted, s.counted(t), paced, all)
	awaitAnswer(ctx, t, s)
}

// send floods from all workers and returns what they did.
func send(ctx context.Context, t *testing.T, s *server, fill func(*packets, []byte) []byte, n int, paced bool) tally {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("%d datagrams, paced %v, seed %d", n, paced, seed)
	var tallies [workers]tally
	group, ctx := errgroup.WithContext(ctx)
	for i := range workers {
		p := newPackets(t, seed+uint64(i))
		share := n / workers
		if i == 0 {
			share += n % workers
		}
		group.Go(func() error {
			var err error
			tallies[i], err = flood(ctx, s.dns, func(b []byte) []byte { return fill(p, b) }, share, paced)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var all tally
	for _, one := range tallies {
		all.add(one)
	}
	return all
}

// checkDrops compares what is counted with what was sent. Of what was paced,
// nearly everything came in.
func checkDrops(t *testing.T, before, after map[string]float64, paced, all tally) {
	t.Helper()
	counted := func(name string) float64 { return after[name] - before[name] }
	dropped := counted(`signpost_dns_dropped_total{reason="junk"}`)
	overload := counted(`signpost_dns_dropped_total{reason="overload"}`)
	t.Logf("dropped: %.0f junk of %d sent, %.0f for overload; %.0f in flight, %.0f panics, %.0f goroutines",
		dropped, all.junk, overload, after["signpost_dns_queries_in_flight"], after["coredns_panics_total"], after["go_goroutines"])
	if dropped < 0.9*float64(paced.junk) || dropped > float64(all.junk) {
		t.Errorf("%.0f dropped as junk are counted, %d were sent, %d of them paced", dropped, all.junk, paced.junk)
	}
	if overload == 0 {
		t.Error("nothing dropped for overload is counted")
	}
	if n := after["coredns_panics_total"]; n > 0 {
		t.Errorf("%.0f panics", n)
	}
}

// awaitAnswer asks until there is an answer.
func awaitAnswer(ctx context.Context, t *testing.T, s *server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		w, err := dial(ctx, s.dns, nil)
		if err == nil {
			err = w.ask()
			_ = w.conn.Close() // nothing is buffered
		}
		if err == nil {
			return
		}
		select {
		case <-tick.C: // nobody listens yet
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}
