package main

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"
)

// row is what was measured with one mix and one flavour.
type row struct {
	mix, flavour string
	runs         map[string][]measured // by server
	latency      map[string]latency
}

// best is the highest rate of a server.
func (r *row) best(server string) float64 {
	best := 0.0
	for _, m := range r.runs[server] {
		best = max(best, m.rate)
	}
	return best
}

// median returns the run in the middle, for each figure by itself.
func (r *row) median(server string) measured {
	runs := r.runs[server]
	m := middle(runs, func(a, b measured) int { return cmp.Compare(a.rate, b.rate) })
	m.cpu = middle(runs, func(a, b measured) int { return cmp.Compare(a.cpu, b.cpu) }).cpu
	m.lost = middle(runs, func(a, b measured) int { return cmp.Compare(a.lost, b.lost) }).lost
	return m
}

func middle[T any](runs []T, compare func(a, b T) int) T {
	return slices.SortedFunc(slices.Values(runs), compare)[len(runs)/2]
}

// report prints as it goes.
type report struct{}

func newReport(o *options) *report {
	fmt.Printf("%d Services of %d endpoints; %d cores for servers and load; %d runs of %v each, medians\n",
		o.services, endpoints, runtime.NumCPU(), o.rounds, o.length)
	fmt.Printf("dnsperf -c 20 -T 1 -q 200; cpu: the server's for one query; p50 and p99 at half of %s's best rate\n\n", peer)
	fmt.Printf("%-22s │ %18s │ %18s │ %16s │ %6s %6s %7s │ %s\n", "", signpost, peer, bare, "rate", "cpu", "cpu", "")
	fmt.Printf("%-22s │ %9s %8s │ %9s %8s │ %8s %7s │ %6s %6s %7s │ %15s  %15s\n",
		"mix", "queries/s", "cpu", "queries/s", "cpu", "q/s", "cpu", "× peer", "÷ peer", "÷ bare", "p50 (peer)", "p99 (peer)")
	return &report{}
}

// add prints a row.
func (*report) add(r *row) {
	ours, theirs, floor := r.median(signpost), r.median(peer), r.median(bare)
	fmt.Printf("%-22s │ %9.0f %8s │ %9.0f %8s │ %8.0f %7s │ %6.2f %6.2f %7.2f │ %7s (%s)  %7s (%s)\n",
		r.mix+" "+r.flavour, ours.rate, micro(ours.cpu), theirs.rate, micro(theirs.cpu), floor.rate, micro(floor.cpu),
		ours.rate/theirs.rate, float64(ours.cpu)/float64(theirs.cpu), float64(ours.cpu)/float64(floor.cpu),
		micro(r.latency[signpost].p50), micro(r.latency[peer].p50), micro(r.latency[signpost].p99), micro(r.latency[peer].p99))
	if ours.rcodes != theirs.rcodes {
		fmt.Printf("  the replies differ: %s, %s's %s\n", ours.rcodes, peer, theirs.rcodes)
	}
	for _, name := range []string{signpost, peer} {
		if lost := r.median(name).lost; lost > 0 {
			fmt.Printf("  %s lost %.3f %% of the queries\n", name, 100*lost)
		}
	}
}

// micro writes a duration in microseconds.
func micro(d time.Duration) string {
	return fmt.Sprintf("%.1fµs", float64(d)/float64(time.Microsecond))
}

// memory prints what the servers hold after all of it.
func (*report) memory(servers map[string]*process) {
	fmt.Println("\nresident memory after the load:")
	for _, key := range slices.Sorted(maps.Keys(servers)) {
		fmt.Printf("  %-20s %6.1f MiB\n", key, servers[key].resident())
	}
}
