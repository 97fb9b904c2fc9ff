package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// coreDNS is what signpost is compared with.
const coreDNS = "github.com/coredns/coredns@v1.15.0"

// options are the command line.
type options struct {
	signpost, coredns string
	services          int
	rounds            int
	length            time.Duration // of one run
	mixes, flavours   string
	late, onlyLate    bool
	keep              bool
	bare              string
	bareSize          int // of its replies in octets
}

func main() {
	var o options
	seconds := flag.Int("seconds", 4, "length of each run")
	short := flag.Bool("short", false, "one round of two seconds, without the part about late changes")
	flag.StringVar(&o.signpost, "signpost", "bin/signpost", "the signpost binary")
	flag.StringVar(&o.coredns, "coredns", "", "a CoreDNS binary; empty: build "+coreDNS)
	flag.IntVar(&o.services, "services", 1000, "Services in the cluster, of ten endpoints each")
	flag.IntVar(&o.rounds, "rounds", 3, "runs of each server and mix; the median counts")
	flag.StringVar(&o.mixes, "mixes", "", "names of mixes, separated by commas; empty: all")
	flag.StringVar(&o.flavours, "flavours", "", "of plain, cache and kubeadm; empty: all that a mix has")
	flag.BoolVar(&o.onlyLate, "late", false, "measure how late a change shows, and nothing else")
	flag.BoolVar(&o.keep, "keep", false, "keep the working folder")
	flag.StringVar(&o.bare, "bare", "", "internal: be the bare loop on this address")
	flag.IntVar(&o.bareSize, "bare-size", 0, "internal: the size of its replies")
	flag.Parse()
	o.late = o.onlyLate || !*short && o.mixes == ""
	o.length = time.Duration(*seconds) * time.Second
	if *short {
		o.rounds, o.length = 1, 2*time.Second
	}
	os.Exit(run(&o))
}

func run(o *options) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	work := func() error { return compare(ctx, o) }
	if o.bare != "" {
		work = func() error { return bareLoop(o.bare, o.bareSize) }
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-dns:", err)
		return 1
	}
	return 0
}

// compare does everything but being the bare loop.
func compare(ctx context.Context, o *options) error {
	dir, err := os.MkdirTemp("", "bench-dns")
	if err != nil {
		return fmt.Errorf("making the working folder: %w", err)
	}
	if o.keep {
		fmt.Println("working in", dir)
	} else {
		defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	}
	if err := o.build(ctx); err != nil {
		return err
	}
	b, err := newBench(o, dir)
	if err != nil {
		return err
	}
	defer b.close()
	if !o.onlyLate {
		if err := b.run(ctx); err != nil {
			return err
		}
	}
	if !o.late {
		return nil
	}
	return b.late(ctx)
}

// build makes CoreDNS with the ordinary Go client. It is kept in the user's
// cache folder; this module's own dependencies don't change.
func (o *options) build(ctx context.Context) error {
	if o.coredns != "" {
		return nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("looking for a place for CoreDNS: %w", err)
	}
	dir := filepath.Join(cache, "signpost-bench", strings.ReplaceAll(coreDNS, "/", "_"))
	o.coredns = filepath.Join(dir, "coredns")
	if _, err := os.Stat(o.coredns); err == nil {
		return nil
	}
	fmt.Println("building", coreDNS)
	cmd := exec.CommandContext(ctx, "go", "install", coreDNS)
	cmd.Env = append(os.Environ(), "GOBIN="+dir)
	cmd.Dir = os.TempDir() // out of this module
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %q: %w", coreDNS, err)
	}
	return nil
}
