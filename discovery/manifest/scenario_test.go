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

func (f *folder) write(name, text string) {
	f.Helper()
	f.must(os.MkdirAll(filepath.Dir(filepath.Join(f.dir, name)), 0o700))
	f.must(os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600))
}

// replace writes a file as editors do, by a rename.
func (f *folder) replace(name, text string) {
	f.Helper()
	f.write(".tmp-"+name, text)
	f.must(os.Rename(filepath.Join(f.dir, ".tmp-"+name), filepath.Join(f.dir, name)))
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
	go func() { done <- f.source.Run(ctx, f.store) }()
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	snap, err := f.store.Wait(ctx, condition)
	if err != nil {
		f.Fatalf("waiting for %s: %v; problems: %v", what, err, f.source.Problems())
	}
	return snap
}

// service waits until a service (default/NAME) is as a condition says.
func (f *folder) service(name, what string, condition func(*discovery.Service) bool) *discovery.Service {
	f.Helper()
	var got *discovery.Service
	f.wait(name+" "+what, func(s *discovery.Snapshot) bool {
		got, _ = s.Services.Get(discovery.Key{Namespace: "default", Name: name})
		return condition(got)
	})
	return got
}

func there(s *discovery.Service) bool { return s != nil }
func gone2(s *discovery.Service) bool { return s == nil }

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func addrsOf(s *discovery.Service) []string {
	var list []string
	if s != nil {
		for _, e := range s.Endpoints {
			if e.Ready {
				list = append(list, e.Addr.String())
			}
		}
	}
	return list
}

// service80 is a manifest of a Service with one port and extra lines of spec.
func service80(name string, spec ...string) string {
	text := "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec:\n  ports: [{port: 80}]\n"
	for _, line := range spec {
		text += "  " + line + "\n"
	}
	return text
}

func serveForEver(dir string) {
	cfg := Config{Dir: dir, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, StateFile: filepath.Join(filepath.Dir(dir), "allocations.yaml")}
	s, err := New(cfg)
	if err == nil {
		err = s.Run(context.Background(), printer{discovery.NewStore()})
	}
	_, _ = os.Stderr.WriteString(err.Error())
	os.Exit(1)
}

// printer shows each service once it is published.
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

func TestTry(t *testing.T) {
	f := newFolder(t, func(c *Config) { c.LoadBalancerPools = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} })
	files, _ := filepath.Glob("/work/shared/scenarios/*.yaml")
	for _, p := range files {
		b, err := os.ReadFile(p)
		f.must(err)
		f.write(filepath.Base(p), string(b))
	}
	f.start()
	for _, p := range f.source.Problems() {
		t.Log(p)
	}
	for k, s := range f.store.Current().Services.All() {
		t.Log(k, s.ClusterIPs, s.LoadBalancerIPs, s.Ports, addrsOf(s), s.Ingress, s.ExternalName)
	}
	b, _ := os.ReadFile(f.cfg.StateFile)
	t.Log(string(b))
}
