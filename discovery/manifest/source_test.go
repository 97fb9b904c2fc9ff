package manifest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signpost/discovery"
	"signpost/discovery/allocator"
)

// TestReactionTime: L7: what may be waited for before the work begins leaves
// room within 100 ms.
func TestReactionTime(t *testing.T) {
	t.Parallel()
	if worst := max(patience, quiet+settle); worst > 60*time.Millisecond {
		t.Errorf("a change may wait for %v", worst)
	}
}

func TestFollowsTheFolder(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("a.yaml", service80("one"))
	f.write("README.md", "no manifest")
	f.write(".hidden.yaml", service80("hidden"))
	f.write(".git/x.yaml", service80("hidden"))
	f.start()
	f.has("one")

	f.write("b.yml", service80("two"))
	f.service("two", "in a new file", there)
	f.write("sub/deep/c.json", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"three"},"spec":{"ports":[{"port":80}]}}`)
	f.service("three", "in a new folder", there)
	f.write("sub/deep/c.json", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"four"},"spec":{"ports":[{"port":80}]}}`)
	f.service("four", "in place of three", there)
	f.service("three", "gone", missing)
	f.replace("a.yaml", service80("one", "clusterIP: 10.96.3.3"))
	f.service("one", "S21 at its new address", at("10.96.3.3"))
	f.must(os.Rename(f.path("sub"), f.path("other")))
	f.must(os.Remove(f.path("b.yml")))
	f.service("two", "gone with its file", missing)
	f.has("one", "four")
	f.must(os.RemoveAll(f.path("other")))
	f.service("four", "gone with its folder", missing)
	f.noProblems()
}

// TestEditorsKeepAddresses: the steps of an editor's save are no deletion.
func TestEditorsKeepAddresses(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	frozen := time.Now() // however slow this machine is, no time passes between the steps
	f.cfg.now = func() time.Time { return frozen }
	f.write("a.yaml", service80("web"))
	f.start()
	want := f.service("web", "there", there).ClusterIPs[0]
	f.must(os.Rename(f.path("a.yaml"), f.path("a.yaml~")))
	f.write("a.yaml", service80("web", "sessionAffinity: ClientIP"))
	got := f.service("web", "changed", func(s *discovery.Service) bool { return s != nil && s.Affinity.ClientIP })
	if got.ClusterIPs[0] != want {
		t.Errorf("got %s, had %s", got.ClusterIPs[0], want)
	}
	if n := f.store.Current().Revision; n != 2 {
		t.Errorf("revision %d: the service was away in between", n)
	}
}

// TestMovedFile: an object that moves from file to file is the same object.
func TestMovedFile(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("a.yaml", service80("web"))
	f.start()
	want := f.service("web", "there", there)
	f.must(os.Rename(f.path("a.yaml"), f.path("z.yaml")))
	f.write("new.yaml", service80("new"))
	f.service("new", "there", there)
	f.noProblems()
	if f.service("web", "there", there) != want {
		t.Error("the service is another one")
	}
}

// TestSymlinkSwap: a mounted ConfigMap changes all its files in one step.
func TestSymlinkSwap(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	version := func(name, a, b string) {
		f.write(name+"/a.yaml", service80("a", "clusterIP: "+a))
		f.write(name+"/b.yaml", service80("b", "clusterIP: "+b))
	}
	version("..1", "10.96.1.1", "10.96.1.2")
	f.must(os.Symlink("..1", f.path("..data")))
	for _, name := range []string{"a.yaml", "b.yaml"} {
		f.must(os.Symlink("..data/"+name, f.path(name)))
	}
	f.start()
	f.has("a", "b")

	version("..2", "10.96.1.2", "10.96.1.1") // they swap their addresses
	f.must(os.Symlink("..2", f.path("..tmp")))
	f.must(os.Rename(f.path("..tmp"), f.path("..data")))
	f.must(os.RemoveAll(f.path("..1")))
	f.service("a", "swapped", at("10.96.1.2"))
	f.service("b", "swapped", at("10.96.1.1"))
	if n := f.store.Current().Revision; n != 2 {
		t.Errorf("revision %d, want one for the swap", n)
	}
	f.noProblems()
}

// TestBurst: however many files change at once, nobody sees a half of it.
func TestBurst(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	write := func(app string) {
		for i := range 20 {
			f.write(fmt.Sprintf("%d.yaml", i), service80(fmt.Sprintf("s%d", i), "selector: {app: "+app+"}"))
		}
	}
	write("one")
	f.start()
	before := f.store.Current().Revision
	f.source.mu.Lock() // as if it were busy
	write("two")
	f.source.mu.Unlock()
	f.wait("all", func(s *discovery.Snapshot) bool {
		for _, svc := range s.Services.All() {
			if svc.Selector["app"] != "two" {
				return false
			}
		}
		return true
	})
	if n := f.store.Current().Revision - before; n > 5 {
		t.Errorf("%d revisions for one burst of 20 files", n)
	}
}

func TestHalfWritten(t *testing.T) {
	t.Parallel()
	whole := service80("one") + service80("two") + service80("three")
	for name, half := range map[string]string{
		"L12 cut inside a document":  whole[:len(whole)-30] + "\n   x: [",
		"L12 cut in the first":       whole[:strings.Index(whole, "name:")],
		"L12 cut inside a flow list": whole[:strings.LastIndex(whole, "}")],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t)
			f.write("a.yaml", whole)
			f.start()
			f.write("a.yaml", half)
			f.problem("a.yaml")
			f.has("one", "two", "three")
			f.write("a.yaml", whole+service80("four"))
			f.service("four", "there", there)
			f.has("one", "two", "three", "four")
			f.noProblems()
		})
	}
}

func TestBadVersionKeepsLastGood(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("a.yaml", service80("web", "clusterIP: 10.96.3.3")+service80("other", "clusterIP: 10.96.3.4"))
	f.start()
	for _, bad := range []string{"clusterIP: 192.0.2.1", "clusterIP: 10.96.3.4", "type: Nonsense", "ports: 5"} {
		f.write("a.yaml", service80("web", bad)+service80("other", "clusterIP: 10.96.3.4")+service80("news-of-"+strings.ToLower(bad[:1])))
		f.problem("a.yaml")
		f.service("web", "as it was", at("10.96.3.3"))
		f.write("a.yaml", service80("web", "clusterIP: 10.96.3.3")+service80("other", "clusterIP: 10.96.3.4"))
		f.noProblems()
	}
	f.write("a.yaml", service80("other"))
	f.service("web", "gone when it isn't there", missing)
}

func TestDefinedTwice(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("b.yaml", service80("web", "clusterIP: 10.96.3.2"))
	f.write("c.yaml", service80("web", "clusterIP: 10.96.3.3"))
	f.start()
	f.service("web", "the first by path", at("10.96.3.2"))
	if p := f.problem("defined already at "); p.File != f.path("c.yaml") || p.Line != 2 || p.Object != `Service "default/web"` {
		t.Errorf("got %v", p)
	}
	f.write("a.yaml", service80("web", "clusterIP: 10.96.3.1"))
	f.service("web", "a new first", at("10.96.3.1"))
	f.must(os.Remove(f.path("a.yaml")))
	f.must(os.Remove(f.path("b.yaml")))
	f.service("web", "the last one left", at("10.96.3.3"))
	f.noProblems()
}

// TestTakeover: P-26: what was refused is served when the other goes.
func TestTakeover(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("a.yaml", service80("first", "clusterIP: 10.96.3.3"))
	f.write("b.yaml", service80("second", "clusterIP: 10.96.3.3"))
	f.start()
	f.has("first")
	f.problem(`b.yaml:7: Service "default/second": spec.clusterIPs[0]: Invalid value: "10.96.3.3": failed to allocate IP 10.96.3.3: provided IP is already allocated to service "default/first"`)
	f.must(os.Remove(f.path("a.yaml")))
	f.service("second", "in its place", at("10.96.3.3"))
	f.noProblems()
}

// TestUnreadable: what can't be read stays as it was.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("a.yaml", service80("one"))
	f.write("sub/b.yaml", service80("two"))
	f.start()
	away := f.dir + "-away"
	f.must(os.Rename(f.dir, away))
	f.problem("what was there stays as it was")
	f.has("one", "two")
	f.must(os.Rename(away, f.dir))
	f.stop()
	f.start()
	f.has("one", "two")
	f.noProblems()
	// A folder behind a symlink that leads nowhere for a while.
	f.must(os.Rename(f.path("sub"), away))
	f.must(os.Symlink(f.path("nowhere.yaml"), f.path("x.yaml")))
	f.problem("x.yaml")
	f.service("two", "gone with its folder", missing)
}

func TestSameAddressesAfterRestart(t *testing.T) {
	t.Parallel()
	f := newFolder(t, func(c *Config) { c.LoadBalancerPools = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} })
	for i := range 20 {
		f.write(fmt.Sprintf("%d.yaml", i), service80(fmt.Sprintf("s%d", i), "type: LoadBalancer", "externalTrafficPolicy: Local"))
	}
	before := f.start().store.Current()
	f.stop()
	// A file that can't be understood does not lose what was allocated for it.
	f.write("7.yaml", "{ not a manifest")
	f.write("0.yaml", service80("newcomer", "clusterIP: "+clusterIP(before, "s7"))+service80("s0", "type: LoadBalancer", "externalTrafficPolicy: Local"))
	f.start()
	f.problem("newcomer")
	f.stop()
	f.write("7.yaml", service80("s7", "type: LoadBalancer", "externalTrafficPolicy: Local"))
	after := f.start().store.Current()
	for k, s := range before.Services.All() {
		if now, _ := after.Services.Get(k); !s.Equal(now) {
			t.Errorf("%s was %+v, is %+v", k, s, now)
		}
	}
}

func clusterIP(s *discovery.Snapshot, name string) string {
	svc, _ := s.Services.Get(key(name))
	return svc.ClusterIPs[0].String()
}

// TestKill: X13: killed at any moment, the next run has every address that
// was ever shown.
func TestKill(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	shown := map[string]string{}
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "MANIFEST_KILL_ME="+f.dir)
		out, err := cmd.StdoutPipe()
		f.must(err)
		f.must(cmd.Start())
		lines := bufio.NewScanner(out)
		note := func() bool {
			if !lines.Scan() {
				return false
			}
			name, addr, _ := strings.Cut(lines.Text(), " ")
			if had := shown[name]; had != "" && had != addr {
				t.Errorf("%s had %s, has %s", name, had, addr)
			}
			shown[name] = addr
			return true
		}
		for range len(shown) {
			note()
		}
		for i := range 5 {
			f.write(fmt.Sprintf("%d-%d.yaml", round, i), service80(fmt.Sprintf("s%d-%d", round, i)))
			if i < 4 {
				note()
			}
		}
		f.must(cmd.Process.Kill())
		for note() { // what it said before it died
		}
		_ = cmd.Wait() // "signal: killed"
	}
	f.start()
	if len(shown) < 16 {
		t.Errorf("only %d services were shown", len(shown))
	}
	for name, want := range shown {
		if got := clusterIP(f.store.Current(), strings.TrimPrefix(name, "default/")); got != want {
			t.Errorf("%s had %s, has %s", name, want, got)
		}
	}
}

func TestCorruptState(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.must(os.WriteFile(f.cfg.StateFile, []byte(`{"version": 1, "ser`), 0o600))
	var corrupt *allocator.CorruptError
	if _, err := New(f.cfg); !errors.As(err, &corrupt) {
		t.Errorf("got %v", err)
	}
	if _, err := Load(f.cfg); !errors.As(err, &corrupt) {
		t.Errorf("got %v", err)
	}
}

// TestStateCannotBeSaved: no address is shown that a restart would not know.
func TestStateCannotBeSaved(t *testing.T) {
	t.Parallel()
	f := newFolder(t, func(c *Config) { c.StateFile = filepath.Join(c.Dir, "..", "state", "allocations.yaml") })
	f.write("a.yaml", service80("web")+service80("plain", "clusterIP: None"))
	f.start()
	f.problem("saving allocations")
	f.has("plain")
	f.must(os.Mkdir(filepath.Dir(f.cfg.StateFile), 0o700))
	f.service("web", "there once it is durable", there)
	f.noProblems()
}

func TestStateInsideTheFolder(t *testing.T) {
	t.Parallel()
	f := newFolder(t, func(c *Config) { c.StateFile = filepath.Join(c.Dir, "allocations.yaml") })
	f.write("a.yaml", service80("web"))
	f.start()
	f.write("b.yaml", service80("other"))
	f.service("other", "there", there)
	f.noProblems()
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("file", "")
	for want, dir := range map[string]string{
		"no such file or directory": f.path("nowhere"),
		"not a folder":              f.path("file"),
	} {
		cfg := f.cfg
		cfg.Dir = dir
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestPollingWorks(t *testing.T) {
	t.Parallel()
	f := newFolder(t, func(c *Config) { c.Rescan = time.Millisecond })
	f.write("a.yaml", service80("one"))
	var err error
	f.source, err = New(f.cfg)
	f.must(err)
	f.store = discovery.NewStore()
	l := newLoop(f.source, f.store)
	l.watcher = &watcher{}
	l.start()
	f.must(os.WriteFile(f.path("b.yaml"), []byte(service80("two")), 0o600))
	l.rescan = time.Time{}
	l.turn()
	f.has("one", "two")
}

func TestProbe(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	f := newFolder(t, func(c *Config) { c.Probe = true })
	pod := podAt("p", "x", "127.0.0.1", "False")
	pod = strings.Replace(pod, "{name: c, ", fmt.Sprintf("{name: c, readinessProbe: {tcpSocket: {port: %d}, periodSeconds: 1, failureThreshold: 1}, ", port), 1)
	f.write("a.yaml", service80("web", "selector: {app: x}")+pod)
	f.start()
	f.service("web", "ready by its probe", readyAt("127.0.0.1"))
	f.must(listener.Close())
	f.service("web", "not ready by its probe", readyAt())
}
