package dnsserver

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"
)

// filePause is how often files with upstreams are looked at. Looking costs one
// system call, sees through every way to replace a file, and needs no watch
// that a mounted file may not support.
const filePause = time.Second

// fileWatch tells whether files have changed.
type fileWatch struct {
	files []string
	seen  []os.FileInfo
}

// changed looks again.
func (w *fileWatch) changed() bool {
	now := make([]os.FileInfo, len(w.files))
	for i, file := range w.files {
		now[i], _ = os.Stat(file) // nil: not there at the moment
	}
	same := len(w.seen) == len(now)
	for i := 0; same && i < len(now); i++ {
		same = sameFile(w.seen[i], now[i])
	}
	w.seen = now
	return !same
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// filesOf returns the files among upstreams.
func filesOf(to []string) []string {
	var files []string
	for _, arg := range to {
		if isFile(arg) {
			files = append(files, arg)
		}
	}
	return files
}

// isFile tells a path from an address.
func isFile(arg string) bool {
	_, isAddr := parseAddr(arg, plainPort)
	return !isAddr && !strings.Contains(arg, "://") && strings.Contains(arg, "/")
}

// follow replaces the upstreams when a file names others. What can't be read
// changes nothing.
func (f *forward) follow(ctx context.Context, watch *fileWatch) {
	tick := time.NewTicker(filePause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if watch.changed() {
			f.reread(ctx)
		}
	}
}

// reread reads the upstreams again.
func (f *forward) reread(ctx context.Context) {
	targets, err := parseUpstreams(ctx, f.conf.To, f.resolve)
	if err == nil {
		err = f.tls.check(targets)
	}
	if err != nil {
		f.log.Error("reading upstreams again failed: going on with the old ones", "from", f.from, "err", err)
		return
	}
	if f.setTargets(targets) {
		f.log.Info("upstreams have changed", "from", f.from, "to", targetNames(targets))
	}
}

// setTargets replaces the upstreams, and reports whether they differ. Those
// that stay keep their connections and what is known of their health.
func (f *forward) setTargets(targets []upstreamAddr) bool {
	var before []*upstream
	if p := f.upstreams.Load(); p != nil {
		before = *p
	}
	known := make(map[upstreamAddr]*upstream, len(before))
	for _, up := range before {
		known[up.upstreamAddr] = up
	}
	next := make([]*upstream, len(targets))
	for i, to := range targets {
		if next[i] = known[to]; next[i] == nil {
			next[i] = f.newUpstream(to)
			known[to] = next[i]
		}
	}
	f.upstreams.Store(&next)
	for _, up := range before {
		if !slices.Contains(targets, up.upstreamAddr) {
			up.close()
		}
	}
	return !slices.Equal(before, next)
}

func targetNames(targets []upstreamAddr) []string {
	names := make([]string, len(targets))
	for i, to := range targets {
		names[i] = to.String()
	}
	return names
}
