package manifest

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"signpost/discovery"
	"signpost/discovery/allocator"
)

// engine is the folder as it is known, from the files' text to what a store is
// told. It is for one goroutine.
type engine struct {
	cfg     Config
	log     *slog.Logger
	seed    maphash.Seed
	decoder decoder
	state   string // absolute path of the state file, which is no manifest

	files    map[string]*file
	ledger   *ledger
	defs     *definitions
	world    *world
	registry *registry
	pending  map[discovery.Key]outcome // decided, but not saved yet
	noticed  map[string]bool           // kinds that were skipped
	forgot   bool                      // what the state file remembered in vain is released
	readOnly bool                      // allocate, but save nothing
	prober   prober                    // nil: conditions count
	now      func() time.Time
	lines    int // of problems that were logged, or would have been, this time
}

// mostLines is how many problems are logged at a time. All of them are in
// [Source.Problems].
const mostLines = 50

// prober runs the readiness probes of pods.
type prober interface {
	Set(pods []*corev1.Pod)
	Ready(pod discovery.Key) (ready, known bool)
	Close()
}

func newEngine(cfg Config) (*engine, error) {
	numbers, err := allocator.New(cfg.allocator())
	if err != nil {
		return nil, err
	}
	if err := numbers.Load(); err != nil {
		return nil, err
	}
	e := &engine{
		cfg: cfg, log: cfg.Log, seed: maphash.MakeSeed(), decoder: decoder{options: cfg.options()},
		files: map[string]*file{}, world: newWorld(), pending: map[discovery.Key]outcome{},
		noticed: map[string]bool{}, now: cfg.now,
	}
	if cfg.StateFile != "" {
		if e.state, err = filepath.Abs(cfg.StateFile); err != nil {
			return nil, fmt.Errorf("finding the state file %q: %w", cfg.StateFile, err)
		}
	}
	e.ledger = newLedger(e.report)
	e.defs = newDefinitions(e.ledger)
	e.registry = &registry{numbers: numbers, defs: e.defs, ledger: e.ledger, blocked: map[discovery.Key]bool{}}
	return e, nil
}

// report logs a problem that came or went.
func (e *engine) report(p Problem, solved bool) {
	if e.lines++; e.lines > mostLines {
		return
	}
	place := p.File
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	attrs := []any{"at", place, "object", p.Object, "field", p.Field, "reason", p.Reason}
	if solved {
		e.log.Info("manifest problem is gone", attrs...)
		return
	}
	e.log.Warn("manifest problem", attrs...)
}

// reported ends a batch of reports.
func (e *engine) reported() {
	if more := e.lines - mostLines; more > 0 {
		e.log.Warn("more manifest problems came or went", "count", more)
	}
	e.lines = 0
}

// isState reports whether a path is the state file.
func (e *engine) isState(path string) bool {
	if e.state == "" || filepath.Base(path) != filepath.Base(e.state) {
		return false
	}
	abs, err := filepath.Abs(path)
	return err == nil && abs == e.state
}

// look lists the folder and returns the files that have to be read.
func (e *engine) look() (paths []string, l *listing) {
	l = list(e.cfg.Dir, e.isState)
	for path, info := range l.files {
		if f := e.files[path]; f == nil || !f.current(info) {
			paths = append(paths, path)
		}
	}
	for path := range e.files {
		if _, there := l.files[path]; !there && !l.unknown(path) {
			paths = append(paths, path)
		}
	}
	var failed []finding
	for path, err := range l.failed {
		failed = append(failed, finding{Problem: Problem{File: path, Reason: err.Error()}})
	}
	e.ledger.set("folder", failed)
	return paths, l
}

// read reads files and decodes what is new in them. A file that can't be read
// stays what it was.
func (e *engine) read(paths []string) []*change {
	now := e.now()
	var changes []*change
	for _, path := range paths {
		f := e.files[path]
		if f == nil {
			f = &file{path: path}
		}
		c, err := readFile(f, e.seed, now)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if e.files[path] != nil {
				changes = append(changes, gone(f, now))
			}
		case err != nil:
			e.unreadable(f, err)
		default:
			changes = append(changes, c)
		}
	}
	e.decode(changes)
	return changes
}

func (e *engine) unreadable(f *file, err error) {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	reason := fmt.Sprintf("reading: %v: what was there stays as it was", err)
	e.ledger.set(f.path, []finding{{Problem: Problem{File: f.path, Reason: reason}}})
	f.doubt = doubt{since: e.now()} // read it again at the next look
	e.files[f.path] = f
}

// decode decodes the new documents, on all cores.
func (e *engine) decode(changes []*change) {
	type task struct {
		doc   *document
		chunk chunk
	}
	var tasks []task
	for _, c := range changes {
		for i, d := range c.added {
			tasks = append(tasks, task{d, c.chunks[i]})
		}
		c.chunks = nil
	}
	parallel(len(tasks), func(i int) {
		tasks[i].doc.content = e.decoder.decode(tasks[i].chunk)
		tasks[i].chunk.text = nil
	})
}

// parallel runs f for 0..n-1, on all cores if that is worth it.
func parallel(n int, f func(i int)) {
	const worth = 32
	if n < worth {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// accept takes readings over and brings the objects in force up to date.
func (e *engine) accept(changes []*change) {
	var added, removed []*document
	for _, c := range changes {
		came, went := c.commit()
		added, removed = append(added, came...), append(removed, went...)
		if c.info == nil {
			delete(e.files, c.file.path)
		} else {
			e.files[c.file.path] = c.file
		}
		e.reportOn(c.file)
	}
	for _, d := range added {
		for _, kind := range d.content.skipped {
			e.skipped(kind, d)
		}
	}
	for id := range e.defs.update(added, removed) {
		if now, changed := e.defs.decide(id); changed {
			e.world.set(id, now)
		}
	}
}

// reportOn reports the parts of a file that can't be understood.
func (e *engine) reportOn(f *file) {
	var found []finding
	for _, d := range f.docs {
		for _, bad := range d.content.faults {
			found = append(found, d.finding(bad, nil, false))
		}
	}
	e.ledger.set(f.path, found)
}

func (e *engine) skipped(kind string, d *document) {
	if !e.noticed[kind] {
		e.noticed[kind] = true
		e.log.Info("skipping objects of a kind that is not used", "kind", kind, "first", fmt.Sprintf("%s:%d", d.file.path, d.line))
	}
}

// clear reports whether every file was read and understood, so that what is
// not defined is not there.
func (e *engine) clear() bool {
	if len(e.ledger.byOwner["folder"]) > 0 {
		return false
	}
	for path := range e.files {
		if len(e.ledger.byOwner[path]) > 0 {
			return false
		}
	}
	return true
}

// checkDir says in words why a folder can't be the source.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("opening manifests folder %q: not a folder", dir)
	}
	if err == nil {
		_, err = os.ReadDir(dir)
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	if err != nil {
		return fmt.Errorf("opening manifests folder %q: %w", dir, err)
	}
	return nil
}
