package iptables

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// converge applies until it succeeds, as the controller does.
func converge(t *testing.T, b *Backend, have, want *vip.State) *vip.State {
	t.Helper()
	for range 200 {
		err := b.Apply(t.Context(), have, want)
		var partial *vip.PartialError
		switch {
		case err == nil:
			return want
		case errors.As(err, &partial):
			have = vip.AfterPartial(want, partial)
		default:
			have = nil
		}
	}
	t.Fatal("no end of failures")
	return nil
}

// Commands fail in every way, and whatever they leave, the next call makes it
// right: the tables are those of one that never failed (X01, X05, X06, X07).
func TestConvergesThroughFailures(t *testing.T) {
	random := viptest.Rand(t)
	failing, perfect := newFakeTables(), newFakeTables()
	failing.fail = func(command string, args []string, stdin string) error {
		if random.IntN(10) > 0 {
			return nil
		}
		err := anyFailure(random, stdin)
		if _, refused := refusal(err); refused && strings.Contains(stdin, "\n-X ") {
			return nil // nobody else's rules lead to our chains
		}
		return err
	}
	flaky, sound := withFake(failing), withFake(perfect)
	churn := viptest.NewChurn(random)
	node := churn.Node()
	var have, held *vip.State
	for range 60 {
		if random.IntN(8) == 0 {
			node = churn.Node()
		}
		want := vip.Planner{}.Plan(churn.Step(), node)
		have = converge(t, flaky, have, want)
		held = converge(t, sound, held, want)
		sameRules(t, failing.dump(), perfect.dump())
	}
}

func withFake(f *fakeTables) *Backend { return New(Config{Variant: "nft", run: f}) }

func anyFailure(random *rand.Rand, stdin string) error {
	lines := strings.Count(stdin, "\n")
	return [...]error{
		&toolError{tool: "x", status: statusBusy, stderr: "Another app is currently holding the xtables lock."},
		&toolError{tool: "x", status: 137},
		&toolError{tool: "x", status: -1, state: "signal: segmentation fault"},
		fs.ErrNotExist,
		context.DeadlineExceeded,
		refusedLine("x", 1+random.IntN(lines+1), "Invalid argument"),
		&toolError{tool: "x", status: statusOther, stderr: "iptables-restore: line " + "7" + " failed"},
		&toolError{tool: "x", status: statusUsage, stderr: "\xff\xfe garbage"},
	}[random.IntN(8)]
}

const threeServices = `node n addrs=192.168.6.1 nodeports=192.168.6.1 pods=172.16.0.0/16 services=10.96.0.0/16
service a/good ips=10.96.0.1 ports=:80
slice s ports=:8080
endpoint 172.16.1.1 node=m
service a/bad ips=10.96.0.2 ports=:80 affinity=1h
slice s ports=:8080
endpoint 172.16.1.2 node=m
service a/beside ips=10.96.0.3 ports=:80
slice s ports=:8080
endpoint 172.16.1.3 node=m
`

func frontend(addr string) vip.Frontend {
	f, err := vip.ParseFrontend(addr)
	if err != nil {
		panic(err)
	}
	return f
}

// spoiler makes rules with session affinity such that the kernel refuses them,
// as one without xt_recent does.
type spoiler struct{ processes }

func (s spoiler) run(ctx context.Context, stdin []byte, name string, args ...string) (string, string, error) {
	spoilt := strings.ReplaceAll(string(stdin), "-m recent --set", "-m nfacct --nfacct-name nobodys -m recent --set")
	return s.processes.run(ctx, []byte(spoilt), name, args...)
}

// B59, T-08: a rule that the kernel really refuses costs its own service alone,
// whether the error names its line (nf_tables) or not (legacy).
func TestRefusedRule(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		b := New(Config{Variant: string(v), run: spoiler{}})
		want := world(t, threeServices)
		wantFailed := func(err error) {
			t.Helper()
			var partial *vip.PartialError
			if !errors.As(err, &partial) || len(partial.Failed) != 1 || partial.Failed[frontend("10.96.0.2:80")] == nil {
				t.Fatalf("got %v, want a/bad alone to fail", err)
			}
			text := dump(t, v)
			for _, there := range []string{"172.16.1.1:8080", "172.16.1.3:8080"} {
				if !strings.Contains(text, there) {
					t.Errorf("%s is missing:\n%s", there, text)
				}
			}
			if strings.Contains(text, tryChain) {
				t.Error("the trial is left over")
			}
		}
		wantFailed(b.Apply(t.Context(), nil, want))
		have := want.Without(map[vip.Frontend]error{frontend("10.96.0.2:80"): nil})
		wantFailed(b.Apply(t.Context(), have, want))

		mended := newBackend(t, v) // the module is there now
		mustApply(t, mended, nil, want)
		if !strings.Contains(dump(t, v), "172.16.1.2:8080") {
			t.Error("a/bad is not there after all")
		}
		// A service that loses its good rules to refused ones keeps them.
		changed := world(t, strings.Replace(threeServices, "ips=10.96.0.1 ports=:80", "ips=10.96.0.1 ports=:80 affinity=2h", 1))
		mended.run, mended.planes[0].tool.run = spoiler{}, spoiler{}
		err := mended.Apply(t.Context(), want, changed)
		var partial *vip.PartialError
		if !errors.As(err, &partial) || partial.Failed[frontend("10.96.0.1:80")] == nil || !strings.Contains(dump(t, v), "172.16.1.1:8080") {
			t.Errorf("got %v, in\n%s", err, dump(t, v))
		}
		gone := world(t, strings.Split(threeServices, "\n")[0])
		mustApply(t, mended, vip.AfterPartial(changed, partial), gone)
		if text := dump(t, v); strings.Contains(text, "172.16.1.1:8080") {
			t.Errorf("what failed is left over:\n%s", text)
		}
	})
}

// A rule that the command itself refuses to read.
func TestUnreadableRule(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		bad := &vip.VirtualServer{Frontend: frontend("10.96.0.9:80"), Affinity: 1 << 62, Cluster: []vip.Endpoint{{}}}
		bad.Cluster[0].AddrPort = endpointAt("172.16.1.9:80")
		good := &vip.VirtualServer{Frontend: frontend("10.96.0.8:80"), Cluster: bad.Cluster}
		state := vip.NewState(testNode,
			&vip.ServicePlan{Owner: discovery.Key{Name: "bad"}, Servers: []*vip.VirtualServer{bad}},
			&vip.ServicePlan{Owner: discovery.Key{Name: "good"}, Servers: []*vip.VirtualServer{good}})
		var partial *vip.PartialError
		err := newBackend(t, v).Apply(t.Context(), nil, state)
		if !errors.As(err, &partial) || len(partial.Failed) != 1 || partial.Failed[bad.Frontend] == nil {
			t.Errorf("got %v", err)
		}
	})
}

// What can't be said in a payload never gets there (P-25, X10).
func TestChecks(t *testing.T) {
	t.Parallel()
	endpoint := func(text string) []vip.Endpoint {
		return []vip.Endpoint{{AddrPort: endpointAt(text)}}
	}
	for name, v := range map[string]*vip.VirtualServer{
		"no address":       {},
		"protocol":         {Frontend: vip.Frontend{Addr: frontend("10.96.0.1:80").Addr, Port: 80, Protocol: 77}},
		"the other family": {Frontend: frontend("10.96.0.1:80"), Cluster: endpoint("[fd00::1]:80")},
		"no endpoint":      {Frontend: frontend("10.96.0.1:80"), Local: make([]vip.Endpoint, 1)},
		"zone":             {Frontend: frontend("[fd00::1]:80"), Local: endpoint("[fe80::1%x\n-A]:80")},
	} {
		state := vip.NewState(testNode, &vip.ServicePlan{Servers: []*vip.VirtualServer{v}})
		if !v.Frontend.Addr.IsValid() {
			if check(v) == nil {
				t.Errorf("%s: no error", name)
			}
			continue
		}
		fake := newFakeTables()
		err := withFake(fake).Apply(t.Context(), nil, state)
		var partial *vip.PartialError
		if !errors.As(err, &partial) || partial.Failed[v.Frontend] == nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, prefix := range []string{"eth0\n", "a b", "-j", `"`, "a234567890123456", "!x"} {
		node := &vip.Node{Detector: vip.Detector{InterfacePrefix: prefix}}
		if err := withFake(newFakeTables()).Apply(t.Context(), nil, vip.NewState(node)); err == nil {
			t.Errorf("interface prefix %q: no error", prefix)
		}
	}
}

// X10: names never are more than a comment, and none at all if they are odd.
func TestComments(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"web":                        `-m comment --comment "a/web:http" `,
		"x\n-A INPUT -j ACCEPT":      "",
		`"; quote`:                   "",
		"ümlaut":                     "",
		strings.Repeat("long", 1000): "",
	} {
		v := &vip.VirtualServer{Owner: discovery.Key{Namespace: "a", Name: name}, PortName: "http"}
		if got := commentOf(v); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// X06: a command that hangs is killed when the context ends.
func TestHungCommand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("that's enough"))
	defer cancel()
	start := time.Now()
	_, _, err := processes{}.run(ctx, nil, "sh", "-c", "sleep 60 & wait")
	if err == nil || !strings.Contains(err.Error(), "that's enough") || time.Since(start) > 10*time.Second {
		t.Errorf("got %v after %s", err, time.Since(start))
	}
}

// X07: what a real command says on ending, in whatever way.
func TestEndings(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"exit 4":                 "exit status 4",
		"echo oh no >&2; exit 3": "exit status 3: oh no",
		"kill -SEGV $$":          "segmentation fault",
		"kill -KILL $$":          "killed",
	} {
		_, _, err := processes{}.run(t.Context(), nil, "sh", "-c", script)
		var e *toolError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", script, err, want)
		}
		if _, refused := refusal(err); refused {
			t.Errorf("%s: taken for a refusal", script)
		}
	}
	if _, _, err := (processes{}).run(t.Context(), nil, "/nonexistent/iptables-restore"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing binary: %v", err)
	}
}

// X07: half a dump, and lines of both variants' errors.
func TestParsing(t *testing.T) {
	t.Parallel()
	if _, err := parse("*nat\n:SIGNPOST-X - [0:0]\n"); err == nil {
		t.Error("half a table was believed")
	}
	for text, want := range map[string][]int{
		"iptables-nft-restore v1.8.9 (nf_tables): \nline 18: RULE_APPEND failed (Invalid argument): rule in chain A\nline 19: RULE_APPEND failed (Invalid argument): rule in chain B\n": {18, 19},
		"iptables-restore: line 20 failed\n": {20},
		"iptables-restore v1.8.9 (legacy): Couldn't load match `hl':No such file or directory\n\nError occurred at line: 4\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.\n": {4},
		"something else": nil,
	} {
		e := &toolError{status: statusOther, stderr: text}
		if got := e.lines(); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"you must be root: Permission denied", "Memory allocation problem."} {
		if _, refused := refusal(&toolError{status: statusOther, stderr: text}); refused {
			t.Errorf("%q was taken for a refusal", text)
		}
	}
	if !errors.Is(&toolError{stderr: "Permission denied (you must be root)"}, fs.ErrPermission) {
		t.Error("lack of privileges is not fs.ErrPermission")
	}
}

// X01, T-07: while somebody holds the lock, nothing happens, and that is not
// taken for a refusal.
func TestLockHeld(t *testing.T) {
	viptest.InNamespace(t)
	lock := filepath.Join(t.TempDir(), "xtables.lock")
	holder := exec.Command("flock", lock, "sh", "-c", "echo held; exec sleep 60")
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Process.Kill(); _ = holder.Wait() }()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XTABLES_LOCKFILE", lock)
	b := newBackend(t, legacyVariant)
	restoreArgs[3] = "1"
	defer func() { restoreArgs[3] = "5" }()
	err = b.Apply(t.Context(), nil, world(t, threeServices))
	var partial *vip.PartialError
	if err == nil || errors.As(err, &partial) || !strings.Contains(err.Error(), "lock") {
		t.Errorf("got %v, want that the lock is held", err)
	}
	if text := dump(t, legacyVariant); strings.Contains(text, prefix) {
		t.Errorf("something was written:\n%s", text)
	}
	_ = os.Unsetenv("XTABLES_LOCKFILE")
	mustApply(t, b, nil, world(t, threeServices))
}

func endpointAt(text string) netip.AddrPort {
	ap, err := netip.ParseAddrPort(text)
	if err != nil {
		panic(err)
	}
	return ap
}
