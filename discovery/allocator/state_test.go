package allocator

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func withState(path string) func(*Config) {
	return func(cfg *Config) {
		cfg.StateFile, cfg.BalancerPools = path, prefixes("203.0.113.0/24")
	}
}

func anyRequest(owner string) Request {
	return Request{
		Owner: owner, Families: []Family{IPv4, IPv6}, HealthCheck: true, Balancer: BalancerRequest{Allocate: true},
		Ports: []PortRequest{{Name: "http", Protocol: "TCP", Port: 80, Allocate: true}, {Name: "dns", Protocol: "UDP", Port: 53, Allocate: true}},
	}
}

func save(t testing.TB, a *Allocator) {
	t.Helper()
	if err := a.Save(); err != nil {
		t.Fatal(err)
	}
}

func TestSameAfterRestart(t *testing.T) {
	t.Parallel()
	path := statePath(t)
	a := newTestAllocator(t, withState(path))
	before := map[string]Assignment{}
	for i := range 50 {
		owner := fmt.Sprintf("n/s%d", i)
		before[owner] = one(t, a, anyRequest(owner)).Assignment
	}
	save(t, a)

	b := newTestAllocator(t, withState(path))
	audit(t, b)
	// A newcomer who asks by name for what a service had does not get it.
	thief := Request{Owner: "a/thief", Families: v4, ClusterIPs: before["n/s7"].ClusterIPs[:1]}
	reqs := []Request{thief}
	for owner := range before {
		reqs = append(reqs, anyRequest(owner))
	}
	for i, res := range b.Allocate(reqs) {
		if i == 0 {
			if len(res.Errors) == 0 {
				t.Error("the newcomer got another's address")
			}
			continue
		}
		if diff := cmp.Diff(before[reqs[i].Owner], res.Assignment, addrs); diff != "" || res.Changed {
			t.Errorf("%s: %s", reqs[i].Owner, diff)
		}
	}
	if b.state.dirty {
		t.Error("nothing changed, and still there is something to save")
	}
}

func TestOtherRangesAfterRestart(t *testing.T) {
	t.Parallel()
	path := statePath(t)
	a := newTestAllocator(t, withState(path))
	one(t, a, anyRequest("n/s"))
	save(t, a)
	b := newTestAllocator(t, withState(path), func(cfg *Config) {
		cfg.ServiceCIDRs = prefixes("172.20.0.0/16", "fd00:97::/108")
		cfg.NodePorts, cfg.BalancerPools = PortRange{20000, 20999}, prefixes("198.51.100.0/24")
	})
	got := one(t, b, anyRequest("n/s")).Assignment
	if !strings.HasPrefix(got.ClusterIPs[0].String(), "172.20.") || got.NodePorts["http"] > 20999 || got.LoadBalancerIPs[0] != ip("198.51.100.1") {
		t.Errorf("got %+v", got)
	}
}

func TestCorruptStateIsRefusedAndKept(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty":           "",
		"cut":             `{"version": 1, "services": {"n/a": {"clusterIPs": ["10.96`,
		"garbage":         "\x00\x00\x00",
		"other version":   `{"version": 2, "services": {}}`,
		"no services":     `{"version": 1}`,
		"unknown field":   `{"version": 1, "services": {"n/a": {"clusterIP": "10.96.0.1"}}}`,
		"bad address":     `{"version": 1, "services": {"n/a": {"clusterIPs": ["10.96.0.300"]}}}`,
		"bad owner":       `{"version": 1, "services": {"a": {"clusterIPs": ["10.96.0.3"]}}}`,
		"two owners":      `{"version": 1, "services": {"n/a": {"clusterIPs": ["10.96.0.3"]}, "n/b": {"clusterIPs": ["10.96.0.3"]}}}`,
		"something after": `{"version": 1, "services": {}} x`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := statePath(t)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := New(Config{ServiceCIDRs: prefixes("10.96.0.0/12"), StateFile: path})
			if err != nil {
				t.Fatal(err)
			}
			var corrupt *CorruptError
			if err := a.Load(); !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "move it away") || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != content {
				t.Errorf("the file became %q, %v", got, err)
			}
		})
	}
}

// crashingDisk stops working after a number of steps, as a machine does that
// loses power; a write that it stops in is done by half.
type crashingDisk struct {
	osDisk
	steps int
}

var errCrash = errors.New("crash")

func (d *crashingDisk) step() error {
	d.steps--
	if d.steps < 0 {
		return errCrash
	}
	return nil
}

func (d *crashingDisk) Create(path string) (syncer, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	f, err := d.osDisk.Create(path)
	return &crashingFile{syncer: f, disk: d}, err
}

func (d *crashingDisk) Rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.osDisk.Rename(from, to)
}

func (d *crashingDisk) SyncDir(path string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.osDisk.SyncDir(path)
}

type crashingFile struct {
	syncer
	disk *crashingDisk
}

func (f *crashingFile) Write(b []byte) (int, error) {
	if err := f.disk.step(); err != nil {
		n, _ := f.syncer.Write(b[:len(b)/2])
		return n, err
	}
	return f.syncer.Write(b)
}

func (f *crashingFile) Sync() error {
	if err := f.disk.step(); err != nil {
		return err
	}
	return f.syncer.Sync()
}

func TestX13CrashAtEveryStep(t *testing.T) {
	t.Parallel()
	for crashAt := 0; ; crashAt++ {
		path := statePath(t)
		a := newTestAllocator(t, withState(path))
		first := one(t, a, anyRequest("n/first")).Assignment
		save(t, a)
		a.state.disk = &crashingDisk{steps: crashAt}
		second := one(t, a, anyRequest("n/second")).Assignment
		err := a.Save()

		b := newTestAllocator(t, withState(path))
		if diff := cmp.Diff(first, b.Held("n/first"), addrs); diff != "" {
			t.Errorf("crash at step %d: %s", crashAt, diff)
		}
		if err == nil {
			if diff := cmp.Diff(second, b.Held("n/second"), addrs); diff != "" {
				t.Errorf("saved, but not there: %s", diff)
			}
			if crashAt < 5 {
				t.Errorf("there are only %d steps to fail at", crashAt)
			}
			return
		}
		// The disk works again: the next save brings everything.
		a.state.disk = osDisk{}
		save(t, a)
		if diff := cmp.Diff(second, newTestAllocator(t, withState(path)).Held("n/second"), addrs); diff != "" {
			t.Errorf("retry after step %d: %s", crashAt, diff)
		}
	}
}

// TestMain doubles as the program that TestKill kills.
func TestMain(m *testing.M) {
	if path := os.Getenv("ALLOCATOR_KILL_ME"); path != "" {
		allocateForEver(path)
	}
	os.Exit(m.Run())
}

// allocateForEver prints each assignment after it was saved.
func allocateForEver(path string) {
	a, err := New(Config{ServiceCIDRs: prefixes("10.96.0.0/12"), StateFile: path})
	if err == nil {
		err = a.Load()
	}
	for i := len(a.held); err == nil; i++ {
		owner := fmt.Sprintf("n/s%d", i)
		res := a.Allocate([]Request{{Owner: owner, Families: v4}})[0]
		err = a.Save()
		fmt.Println(owner, res.Assignment.ClusterIPs[0])
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestX13Kill(t *testing.T) {
	t.Parallel()
	path := statePath(t)
	shown := map[string]netip.Addr{}
	for range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "ALLOCATOR_KILL_ME="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 20 + rand.IntN(20); n > 0 && lines.Scan(); n-- {
			note(t, shown, lines.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it had still printed before it died
			note(t, shown, lines.Text())
		}
		_ = cmd.Wait() // "signal: killed"
	}
	a := newTestAllocator(t, func(cfg *Config) { cfg.StateFile = path })
	for owner, want := range shown {
		if got := a.Held(owner).ClusterIPs; len(got) != 1 || got[0] != want {
			t.Errorf("%s was shown %s, has %v", owner, want, got)
		}
	}
	if len(shown) < 100 {
		t.Errorf("only %d allocations seen", len(shown))
	}
}

func note(t *testing.T, shown map[string]netip.Addr, line string) {
	t.Helper()
	owner, addr, complete := strings.Cut(line, " ")
	a, err := netip.ParseAddr(addr)
	if !complete || err != nil {
		t.Fatalf("got line %q", line)
	}
	if had, twice := shown[owner]; twice && had != a {
		t.Errorf("%s had %s, now has %s", owner, had, a)
	}
	shown[owner] = a
}

func TestSaveThroughSymlink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "data", "state"), filepath.Join(dir, "link")
	if err := os.Mkdir(filepath.Dir(target), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, []byte(`{"version":1,"services":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	a := newTestAllocator(t, withState(link))
	want := one(t, a, anyRequest("n/s")).Assignment
	save(t, a)
	if diff := cmp.Diff(want, newTestAllocator(t, withState(target)).Held("n/s"), addrs); diff != "" {
		t.Error(diff)
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"version":1,"services":{"n/a":{"clusterIPs":["10.96.0.3"],"nodePorts":{"":30001},"healthCheckNodePort":30002}}}`))
	f.Add([]byte(`{"version":1,"services":{"n/a":{"clusterIPs":["","::ffff:10.96.0.1","fe80::1%eth0"]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		content, err := parseState(data)
		if err != nil {
			return
		}
		a := newTestAllocator(t)
		for owner, had := range content.Services {
			a.remember(owner, had)
		}
		audit(t, a)
		again, err := parseState(a.state.text())
		if err != nil {
			t.Fatalf("can't read what was written: %v", err)
		}
		for owner, had := range content.Services {
			if !had.equal(again.Services[owner]) {
				t.Errorf("%q: got %+v, want %+v", owner, again.Services[owner], had)
			}
		}
	})
}

// FuzzAllocate runs arbitrary batches over small ranges: nothing is owned
// twice, nothing leaks, and after a restart everyone has what he had.
func FuzzAllocate(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, s1, s2 uint64) {
		r := rand.New(rand.NewPCG(s1, s2))
		small := func(cfg *Config) {
			cfg.ServiceCIDRs, cfg.BalancerPools = prefixes("10.0.0.0/27", "fd00::/123"), prefixes("192.0.2.0/29")
			cfg.NodePorts, cfg.Random = PortRange{100, 130}, r.Uint64N
		}
		a := newTestAllocator(t, small)
		for range 20 {
			batch := make([]Request, 1+r.IntN(4))
			for i := range batch {
				batch[i] = randomRequest(r, fmt.Sprintf("n/%d", (r.IntN(5)*4)+i))
			}
			a.Allocate(batch)
			audit(t, a)
		}
		b := newTestAllocator(t, small)
		content, err := parseState(a.state.text())
		if err != nil {
			t.Fatal(err)
		}
		for owner, had := range content.Services {
			b.remember(owner, had)
		}
		audit(t, b)
		if diff := cmp.Diff(a.held, b.held, addrs); diff != "" {
			t.Error(diff)
		}
	})
}

func randomRequest(r *rand.Rand, owner string) Request {
	req := Request{Owner: owner, HealthCheck: r.IntN(3) == 0, Balancer: BalancerRequest{Allocate: r.IntN(2) == 0}}
	req.Families = [][]Family{nil, {IPv4}, {IPv6}, {IPv4, IPv6}, {IPv6, IPv4}}[r.IntN(5)]
	for _, family := range req.Families {
		named := netip.Addr{}
		if r.IntN(2) == 0 {
			named = [...]netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(33))}), netip.AddrFrom16([16]byte{0xfd, 15: byte(r.IntN(33))})}[family]
		}
		req.ClusterIPs = append(req.ClusterIPs, named)
	}
	for i := range r.IntN(4) {
		p := PortRequest{Name: fmt.Sprint(i), Protocol: []string{"TCP", "UDP"}[r.IntN(2)], Port: uint16(1 + r.IntN(2)), Allocate: r.IntN(4) > 0}
		if r.IntN(3) == 0 {
			p.NodePort = uint16(98 + r.IntN(34))
		}
		req.Ports = append(req.Ports, p)
	}
	if r.IntN(2) == 0 {
		req.Balancer.Named = []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(9))})}
	}
	return req
}
