package manifest

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signpost/discovery"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("MANIFEST_KILL_ME"); dir != "" {
		serveForEver(dir)
	}
	goleak.VerifyTestMain(m)
}

// folder is a folder of manifests under test.
type folder struct {
	*testing.T
	dir    string
	cfg    Config
	source *Source
	store  *discovery.Store
	stop   func()
}

func newFolder(t *testing.T, change ...func(*Config)) *folder {
	t.Helper()
	f := &folder{T: t, dir: filepath.Join(t.TempDir(), "cluster")}
	f.must(os.Mkdir(f.dir, 0o700))
	f.cfg = Config{
		Dir: f.dir, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
		StateFile: filepath.Join(filepath.Dir(f.dir), "allocations.yaml"), Rescan: time.Hour,
	}
	for _, c := range change {
		c(&f.cfg)
	}
	return f
}

func (f *folder) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) write(name, text string) {
	f.Helper()
	f.must(os.MkdirAll(filepath.Dir(f.path(name)), 0o700))
	f.must(os.WriteFile(f.path(name), []byte(text), 0o600))
}

// replace writes a file as editors do, by a rename.
func (f *folder) replace(name, text string) {
	f.Helper()
	f.write(".tmp-"+name, text)
	f.must(os.Rename(f.path(".tmp-"+name), f.path(name)))
}

// start runs a source over the folder and waits until it has delivered.
func (f *folder) start() *folder {
	f.Helper()
	var err error
	f.source, err = New(f.cfg)
	f.must(err)
	f.store = discovery.NewStore()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	source, store := f.source, f.store
	go func() { done <- source.Run(ctx, store) }()
	stopped := false
	f.stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-done; err != nil {
				f.Error(err)
			}
		}
	}
	f.Cleanup(f.stop)
	f.wait("synced", func(s *discovery.Snapshot) bool { return s.Synced })
	return f
}

func (f *folder) wait(what string, condition func(*discovery.Snapshot) bool) *discovery.Snapshot {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	snap, err := f.store.Wait(ctx, condition)
	if err != nil {
		f.Fatalf("waiting for %s: %v; problems: %v", what, err, f.source.Problems())
	}
	return snap
}

func key(name string) discovery.Key { return discovery.Key{Namespace: "default", Name: name} }

// service waits until a service (default/NAME) is as a condition says.
func (f *folder) service(name, what string, condition func(*discovery.Service) bool) *discovery.Service {
	f.Helper()
	var got *discovery.Service
	f.wait(name+" "+what, func(s *discovery.Snapshot) bool {
		got, _ = s.Services.Get(key(name))
		return condition(got)
	})
	return got
}

// has fails unless the store has exactly these services in default.
func (f *folder) has(names ...string) {
	f.Helper()
	snap := f.store.Current()
	for _, name := range names {
		if _, ok := snap.Services.Get(key(name)); !ok {
			f.Errorf("service %q is not there", name)
		}
	}
	if snap.Services.Len() != len(names) {
		f.Errorf("%d services, want %v", snap.Services.Len(), names)
	}
}

// problem waits until a problem holds a text; problems come without a revision.
func (f *folder) problem(text string) Problem {
	f.Helper()
	var found Problem
	f.eventually("problem "+text, func() bool {
		for _, p := range f.source.Problems() {
			if strings.Contains(p.String(), text) {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

func (f *folder) noProblems() {
	f.Helper()
	f.eventually("no problems", func() bool { return len(f.source.Problems()) == 0 })
}

// eventually waits for what no revision announces.
func (f *folder) eventually(what string, condition func() bool) {
	f.Helper()
	tick, timeout := time.NewTicker(2*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-timeout:
			f.Fatalf("waiting for %s; problems: %v", what, f.source.Problems())
		}
	}
}

func there(s *discovery.Service) bool   { return s != nil }
func missing(s *discovery.Service) bool { return s == nil }

func at(addr string) func(*discovery.Service) bool {
	return func(s *discovery.Service) bool {
		return s != nil && len(s.ClusterIPs) == 1 && s.ClusterIPs[0].String() == addr
	}
}

// readyAt tells whether exactly these endpoints are ready.
func readyAt(addrs ...string) func(*discovery.Service) bool {
	return func(s *discovery.Service) bool {
		return s != nil && strings.Join(readyAddrs(s), " ") == strings.Join(addrs, " ")
	}
}

func readyAddrs(s *discovery.Service) []string {
	var list []string
	s.Endpoints(func(_ *discovery.Slice, e *discovery.Endpoint) bool {
		if e.Ready {
			list = append(list, e.Addr.String())
		}
		return true
	})
	return list
}

// service80 is a manifest of a Service with one port and more lines of spec.
func service80(name string, spec ...string) string {
	text := "---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec:\n  ports: [{port: 80}]\n"
	for _, line := range spec {
		text += "  " + line + "\n"
	}
	return text
}

func podAt(name, app, addr, ready string) string {
	return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", labels: {app: " + app + "}}\n" +
		"spec:\n  nodeName: node-1\n  containers: [{name: c, ports: [{containerPort: 80}]}]\n" +
		"status:\n  phase: Running\n  podIP: " + addr + "\n  conditions: [{type: Ready, status: \"" + ready + "\"}]\n"
}

// serveForEver is what TestKill kills: it shows each address that is served.
func serveForEver(dir string) {
	s, err := New(Config{
		Dir: dir, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
		StateFile: filepath.Join(filepath.Dir(dir), "allocations.yaml"),
	})
	if err == nil {
		err = s.Run(context.Background(), printer{discovery.NewStore()})
	}
	_, _ = os.Stderr.WriteString(err.Error())
	os.Exit(1)
}

// printer is a store that prints what changes.
type printer struct{ *discovery.Store }

func (p printer) Update(change func(*discovery.Tx)) *discovery.Snapshot {
	before := p.Current()
	now := p.Store.Update(change)
	var b strings.Builder
	for k, s := range now.Services.All() {
		if old, _ := before.Services.Get(k); old != s {
			b.WriteString(k.String() + " " + s.ClusterIPs[0].String() + "\n")
		}
	}
	_, _ = os.Stdout.WriteString(b.String())
	return now
}

// stopThenWrite writes a file that the source does not look at by itself any more.
func (f *folder) stopThenWrite(name, text string) error {
	f.stop()
	return os.WriteFile(f.path(name), []byte(text), 0o600)
}
