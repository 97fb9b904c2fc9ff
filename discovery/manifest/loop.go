package manifest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"signpost/discovery"
	"signpost/discovery/probe"
)

// loop is the one goroutine that owns a source's timing, batching and retry.
type loop struct {
	source  *Source
	engine  *engine
	to      discovery.Writer
	watcher *watcher

	// What is to be done at the next turn.
	paths      map[string]bool
	everything bool
	first      time.Time // when the first of it was seen; zero: nothing is to be done
	due        time.Time // when the next turn is
	rescan     time.Time // when everything is to be looked at again

	probes probeResults
}

// probeResults collects what probes found until the next turn.
type probeResults struct {
	mu      sync.Mutex
	pods    map[discovery.Key]bool
	arrived chan struct{} // holds one token while there is something
}

func (r *probeResults) add(pod discovery.Key, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod] = true
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

func (r *probeResults) take() []discovery.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	pods := slices.Collect(maps.Keys(r.pods))
	clear(r.pods)
	return pods
}

func newLoop(s *Source, to discovery.Writer) *loop {
	return &loop{
		source: s, engine: s.engine, to: to, paths: map[string]bool{},
		probes: probeResults{pods: map[discovery.Key]bool{}, arrived: make(chan struct{}, 1)},
	}
}

func (l *loop) run(ctx context.Context) error {
	var err error
	if l.watcher, err = newWatcher(); err != nil {
		l.poll(err)
	}
	defer l.watcher.close()
	defer l.startProber()()
	l.start()
	timer := time.NewTimer(time.Until(l.due))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-l.watcher.events():
			l.note(ev)
		case err := <-l.watcher.errors():
			l.lost(err)
		case <-l.probes.arrived:
			l.touch()
		case <-timer.C:
			l.turn()
		}
		timer.Reset(time.Until(l.due))
	}
}

// poll goes on without file notification.
func (l *loop) poll(err error) {
	l.engine.log.Warn("looking at the manifests folder again and again", "every", pollInterval, "because", err)
	l.watcher.close()
}

func (l *loop) startProber() (stop func()) {
	if !l.engine.cfg.Probe {
		return func() {}
	}
	p := probe.New(l.engine.log, l.probes.add)
	l.source.mu.Lock()
	defer l.source.mu.Unlock()
	l.engine.prober = p
	return p.Close
}

// touch says that there is something to do: soon, but not before a burst has
// paused or has gone on for long.
func (l *loop) touch() {
	now := time.Now()
	if l.first.IsZero() {
		l.first = now
	}
	l.due = now.Add(quiet)
	if last := l.first.Add(patience); l.due.After(last) {
		l.due = last
	}
}

func (l *loop) note(ev fsnotify.Event) {
	path, everything := l.watcher.meaning(ev)
	switch {
	case everything:
		l.everything = true
	case path == "" || l.engine.isState(path):
		return
	default:
		l.paths[path] = true
	}
	l.touch()
}

// lost handles an error of the watcher: events may be missing.
func (l *loop) lost(err error) {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		l.engine.log.Warn("file notification failed", "err", err)
	}
	l.everything = true
	l.touch()
}

// start brings the whole folder. Nothing is in doubt: there is no earlier
// state that would be better.
func (l *loop) start() {
	l.source.mu.Lock()
	defer l.source.mu.Unlock()
	began := time.Now()
	l.everything = true
	l.engine.accept(l.look())
	l.finish(l.engine.publish(l.to, true), began)
	l.engine.log.Info("manifests loaded", "folder", l.engine.cfg.Dir, "files", len(l.engine.files),
		"objects", len(l.engine.defs.inForce), "took", time.Since(began).Round(time.Millisecond))
}

// turn does what is to be done.
func (l *loop) turn() {
	l.source.mu.Lock()
	defer l.source.mu.Unlock()
	began := time.Now()
	if l.first.IsZero() {
		l.first = began
	}
	changes := l.look()
	certain, doubtful := l.weigh(changes)
	// A change of several files is one change: all wait for those in doubt,
	// but not for ever.
	if len(doubtful) > 0 && began.Sub(l.first) < patience+settle {
		for _, c := range changes {
			l.paths[c.file.path] = true
		}
		l.due = began.Add(settle)
		return
	}
	l.engine.probeChanged(l.probes.take())
	l.engine.accept(certain)
	l.finish(l.engine.publish(l.to, false), began)
	for _, c := range doubtful {
		l.paths[c.file.path] = true
		l.first, l.due = began, began.Add(settle)
	}
}

// look reads what may have changed.
func (l *loop) look() []*change {
	if l.everything || !time.Now().Before(l.rescan) {
		l.lookEverywhere()
	}
	l.everything = false
	paths := slices.Sorted(maps.Keys(l.paths))
	clear(l.paths)
	return l.engine.read(paths)
}

func (l *loop) lookEverywhere() {
	for again := true; again; {
		paths, found := l.engine.look()
		for _, path := range paths {
			l.paths[path] = true
		}
		var err error
		if again, err = l.watcher.follow(found); err != nil {
			l.poll(err)
		}
	}
	l.rescan = time.Now().Add(l.engine.cfg.Rescan)
}

// weigh parts the readings that are good from those that may show a writer at work.
func (l *loop) weigh(changes []*change) (certain, doubtful []*change) {
	now := l.engine.now()
	for _, c := range changes {
		if c.doubtful(now) {
			doubtful = append(doubtful, c)
		} else {
			certain = append(certain, c)
		}
	}
	return certain, doubtful
}

// finish ends a turn and says when the next one is.
func (l *loop) finish(err error, began time.Time) {
	l.first = time.Time{}
	if l.watcher.fs == nil {
		// Looking takes a tenth of the time at most.
		l.rescan = time.Now().Add(max(pollInterval, 9*time.Since(began)))
	}
	l.due = l.rescan
	if retry := time.Now().Add(saveRetry); err != nil && retry.Before(l.due) {
		l.due = retry
	}
}
