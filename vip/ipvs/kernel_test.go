package ipvs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// These tests need a kernel with IPVS. "make integration-ipvs" runs them in a
// guest that has one, with REQUIRE_IPVS set, so that none can be skipped there.

// inKernel gives the test a network namespace of its own in a kernel that has
// IPVS.
func inKernel(t testing.TB) {
	t.Helper()
	required := os.Getenv("REQUIRE_IPVS") != ""
	if !required && os.Geteuid() != 0 {
		t.Skip("needs root, and a kernel with IPVS: make integration-ipvs runs it in one")
	}
	viptest.InNamespace(t)
	if err := kernelBackend(t, Config{}).Probe(t.Context()); err != nil {
		if required {
			t.Fatal(err)
		}
		t.Skipf("%v; make integration-ipvs runs it in a kernel that has it", err)
	}
}

func kernelBackend(t testing.TB, config Config) *Backend {
	config.Log = slog.New(slog.DiscardHandler)
	b := New(config)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func command(t testing.TB, words ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// held is what the namespace's kernel holds, counters aside.
func held(t testing.TB) string {
	t.Helper()
	var addresses strings.Builder
	for line := range strings.Lines(command(t, "ip", "-br", "addr")) {
		fields := strings.Fields(line)
		slices.Sort(fields) // the order of addresses is that of their binding
		fmt.Fprintln(&addresses, fields)
	}
	return command(t, "ipvsadm", "-Sn") + ruleLines(command(t, "nft", "-s", "list", "ruleset")) + addresses.String() +
		command(t, "ip", "rule") + command(t, "ip", "-6", "rule") + command(t, "ip", "route", "show", "table", "all")
}

// ruleLines puts each element of a set on a line with the set's name, and sorts
// them: interval sets list theirs in the order of their addition.
func ruleLines(text string) string {
	var lines []string
	object := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, "{") {
			object = line
		}
		if strings.HasPrefix(object, "chain") {
			lines = append(lines, line+"\n")
			continue
		}
		line = strings.Trim(strings.TrimPrefix(line, "elements = {"), " }")
		for element := range strings.SplitSeq(line, ",") {
			lines = append(lines, object+" "+strings.TrimSpace(element)+"\n")
		}
	}
	if !strings.Contains(text, "table") {
		return text
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "")
}

const kernelWorld = `service a/web ips=10.96.0.7,fd00:96::7 ports=http:80,dns:53/UDP,sctp:80/SCTP
slice a ports=http:8080,dns:53/UDP,sctp:80/SCTP
endpoint 172.16.1.1 node=n1
endpoint 172.16.2.1 node=n2
slice b ports=http:8080,dns:53/UDP,sctp:80/SCTP
endpoint fd00:16::1 node=n1
service a/lb type=LoadBalancer ips=10.96.0.8 ports=80->30080 lb=203.0.113.1 external=198.51.100.1 etp=Local affinity=1h ranges=198.18.0.0/15,10.0.0.0/8
slice a ports=8080
endpoint 172.16.1.1 node=n1
endpoint 172.16.2.1 node=n2
service a/none ips=10.96.0.9 ports=80
`

func TestKernelAdopts(t *testing.T) {
	inKernel(t)
	empty := held(t)
	want := plan(t, kernelWorld)
	b := kernelBackend(t, Config{})
	mustApply(t, b, nil, want)
	first := held(t)
	for _, part := range []string{
		"-A -t 10.96.0.7:80 -s rr", "-a -t 10.96.0.7:80 -r 172.16.2.1:8080 -m -w 1", "-A -u [fd00:96::7]:53 -s rr",
		"--sctp-service 10.96.0.7:80", "-A -t 192.168.6.1:30080 -s rr -p 3600", "-A -f ",
	} {
		if !strings.Contains(first, part) {
			t.Errorf("what the kernel holds lacks %q", part)
		}
	}
	generation, err := b.rules.conn.Generation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustApply(t, b, nil, want)
	mustApply(t, kernelBackend(t, Config{}), nil, want)
	if diff := cmp.Diff(first, held(t)); diff != "" {
		t.Errorf("L-01 a restart changes the kernel (-before +after):\n%s", diff)
	}
	if after, err := b.rules.conn.Generation(t.Context()); err != nil || after != generation {
		t.Errorf("property 3: looking wrote %d transactions, error %v", after-generation, err)
	}
	mustApply(t, b, want, vip.NewState(want.Node()))
	if text := command(t, "ipvsadm", "-Sn"); text != "" {
		t.Errorf("property 6, virtual servers without services:\n%s", text)
	}
	if err := kernelBackend(t, Config{}).Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(empty, held(t)); diff != "" {
		t.Errorf("I-17 what a cleanup leaves (-before +after):\n%s", diff)
	}
	if err := kernelBackend(t, Config{}).Cleanup(t.Context()); err != nil {
		t.Errorf("a second cleanup: %v", err)
	}
}

// TestKernelConverges follows a random sequence of clusters, and compares what
// the kernel then holds with what one that saw only the last one holds.
func TestKernelConverges(t *testing.T) {
	inKernel(t)
	random := viptest.Rand(t)
	churn, b := viptest.NewChurn(random), kernelBackend(t, Config{})
	node := churn.Node()
	var state, have *vip.State
	for range 25 {
		if random.IntN(6) == 0 {
			node = churn.Node()
		}
		state = vip.Planner{}.Plan(churn.Step(), node)
		err := b.Apply(t.Context(), have, state)
		var failure *vip.PartialError
		switch {
		case errors.As(err, &failure): // schedulers that don't exist
			have = vip.AfterPartial(state, failure)
		case err != nil:
			t.Fatal(err)
		default:
			have = state
		}
	}
	incremental := withoutMarks(held(t))
	if err := b.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := kernelBackend(t, Config{}).Apply(t.Context(), nil, state)
	if err != nil && !errors.As(err, new(*vip.PartialError)) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(incremental, withoutMarks(held(t))); diff != "" {
		t.Errorf("property 2 (-incremental +fresh):\n%s\nin this state:\n%s", diff, state)
	}
}

// withoutMarks sorts lines, and takes out the numbers that were given out in
// another order.
func withoutMarks(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "-f ") || strings.Contains(line, "0x") {
			line = "(a mark)\n"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "")
}

func TestKernelSchedulers(t *testing.T) {
	inKernel(t)
	for _, name := range []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh"} {
		config := Config{Scheduler: name}
		if err := kernelBackend(t, config).Probe(t.Context()); err != nil {
			t.Errorf("I-14 %s: %v", name, err)
			continue
		}
		b := kernelBackend(t, config)
		want := plan(t, web)
		mustApply(t, b, nil, want)
		if text := command(t, "ipvsadm", "-Sn"); !strings.Contains(text, "-A -t 10.96.0.7:80 -s "+name) {
			t.Errorf("I-14 %s: got %s", name, text)
		}
		mustApply(t, b, want, vip.NewState(want.Node()))
	}
	err := kernelBackend(t, Config{Scheduler: "nonsense"}).Probe(t.Context())
	if err == nil || !strings.Contains(err.Error(), `scheduler "nonsense": this kernel has no such IPVS scheduler`) {
		t.Errorf("I-01 a scheduler that does not exist: got %v", err)
	}
	b := kernelBackend(t, Config{SchedulerFlags: []string{"sh-fallback", "sh-port"}})
	mustApply(t, b, nil, plan(t, strings.Replace(web, "ports=80\n", "ports=80 scheduler=sh\n", 1)))
	if text := command(t, "ipvsadm", "-Sn"); !strings.Contains(text, "-s sh -b sh-fallback,sh-port") {
		t.Errorf("I-14 flags: got %s", text)
	}
}

// watching runs Watch in the test's namespace until the test ends, and applies
// again whenever it reports drift, as the controller does. It returns when that
// last was, in Unix nanoseconds.
func watching(t *testing.T, b *Backend, want *vip.State) (applied *atomic.Int64) {
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	drift, applied := make(chan struct{}, 1), new(atomic.Int64)
	inside := func(f func()) {
		watch.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			if err := netns.Set(here); err != nil {
				t.Error(err)
			}
			f()
		})
	}
	inside(func() {
		err := b.Watch(ctx, func() {
			select {
			case drift <- struct{}{}:
			default:
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	inside(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-drift:
				if err := b.Apply(ctx, nil, want); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				applied.Store(time.Now().UnixNano())
			}
		}
	})
	t.Cleanup(func() { cancel(); watch.Wait(); here.Close() })
	return applied
}

// TestKernelHealing has another program break things, and wants them back
// within two seconds (X02, X03).
func TestKernelHealing(t *testing.T) {
	inKernel(t)
	b, want := kernelBackend(t, Config{}), plan(t, kernelWorld)
	mustApply(t, b, nil, want)
	whole := held(t)
	applied := watching(t, b, want)
	const limit = 2 * time.Second
	for _, damage := range []string{
		"ipvsadm -C",
		"ipvsadm -d -t 10.96.0.7:80 -r 172.16.2.1:8080",
		"ipvsadm -e -t 10.96.0.7:80 -r 172.16.2.1:8080 -m -w 5",
		"ipvsadm -E -t 10.96.0.7:80 -s wlc",
		"ip link del signpost-ipvs",
		"ip addr del 10.96.0.7/32 dev signpost-ipvs",
		"ip rule del priority 84",
		"ip route flush table 84",
		"nft flush ruleset",
		"nft delete table inet signpost-ipvs",
		"nft flush map inet signpost-ipvs ip4-from-pod",
	} {
		seen := applied.Load()
		command(t, strings.Fields(damage)...)
		began := time.Now()
		for now := ""; now != whole; now = held(t) {
			if time.Since(began) > 5*limit {
				t.Fatalf("%s: not healed:\n%s", damage, cmp.Diff(whole, now))
			}
			// A look takes longer than the healing, on the same CPU.
			for applied.Load() == seen && time.Since(began) < 5*limit {
				waitFor(t, 20*time.Millisecond)
			}
			seen = applied.Load()
		}
		took := max(0, time.Unix(0, seen).Sub(began))
		t.Logf("%s: healed after %s", damage, took.Round(time.Millisecond))
		if took > limit {
			t.Errorf("%s: healed after %s, want %s", damage, took, limit)
		}
	}
}

// waitFor gives the other goroutines the only CPU; there is nothing to wait on
// in another program's tables.
func waitFor(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func TestKernelForeignServers(t *testing.T) {
	inKernel(t)
	command(t, "ipvsadm", "-A", "-t", "203.0.113.5:80", "-s", "wlc")
	command(t, "ipvsadm", "-A", "-f", "7", "-s", "wlc")
	before := command(t, "ipvsadm", "-Sn")
	b, want := kernelBackend(t, Config{}), plan(t, kernelWorld)
	mustApply(t, b, nil, want)
	mustApply(t, b, nil, vip.NewState(want.Node()))
	if err := b.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, command(t, "ipvsadm", "-Sn")); diff != "" {
		t.Errorf("B62 virtual servers of others (-before +after):\n%s", diff)
	}
}

func TestKernelWithoutIPv6(t *testing.T) {
	inKernel(t)
	for _, name := range []string{"all", "default"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := plan(t, kernelWorld)
	err := kernelBackend(t, Config{}).Apply(t.Context(), nil, want)
	var failure *vip.PartialError
	if !errors.As(err, &failure) {
		t.Fatalf("X17 IPv6 switched off: got %v, want a partial error", err)
	}
	for f, reason := range failure.Failed {
		if !f.Is6() || !strings.Contains(reason.Error(), "IPv6 is switched off") {
			t.Errorf("X17 %s failed: %v", f, reason)
		}
	}
	if text := command(t, "ipvsadm", "-Sn"); !strings.Contains(text, "10.96.0.7:80") {
		t.Errorf("X17 IPv4 does not go on:\n%s", text)
	}
}

// TestKernelHung has the kernel not answer (B07, X06): the socket is closed
// under the request.
func TestKernelHung(t *testing.T) {
	inKernel(t)
	k, err := openKernel()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.servers(ctx); err == nil {
		t.Error("a request after the end of its context succeeds")
	}
	k.close()
	if _, err := k.servers(t.Context()); err == nil {
		t.Error("a request on a closed socket succeeds")
	}
}

var benchNode = &vip.Node{Name: "n1", Detector: vip.Detector{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")}}}

// forSizes runs a benchmark with a kernel that holds the services.
func forSizes(b *testing.B, run func(b *testing.B, backend *Backend, store *discovery.Store, held *vip.State)) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			inKernel(b)
			store := viptest.ManyServices(n)
			want := vip.Planner{}.Plan(store.Current(), benchNode)
			backend := kernelBackend(b, Config{})
			began := time.Now()
			mustApply(b, backend, nil, want)
			took := time.Since(began)
			run(b, backend, store, want)
			b.ReportMetric(took.Seconds(), "s/first-sync") // the loop forgets what came before
		})
	}
}

// BenchmarkKernelChange replaces one endpoint of one service, from the model to
// the kernel: an addition, a weight, a look at connections, a removal.
func BenchmarkKernelChange(b *testing.B) {
	forSizes(b, func(b *testing.B, backend *Backend, store *discovery.Store, have *vip.State) {
		snapshot, variant := store.Current(), byte(0)
		for b.Loop() {
			variant++
			next := store.Update(func(tx *discovery.Tx) { tx.PutService(viptest.OneOfMany(5, variant)) })
			want := vip.Planner{}.Next(have, snapshot, next, benchNode)
			mustApply(b, backend, have, want)
			snapshot, have = next, want
		}
	})
}

// BenchmarkKernelLook is the periodic check by the controller.
func BenchmarkKernelLook(b *testing.B) {
	forSizes(b, func(b *testing.B, backend *Backend, _ *discovery.Store, held *vip.State) {
		for b.Loop() {
			mustApply(b, backend, nil, held)
		}
	})
}

// BenchmarkKernelGlance is what Watch does every 500 ms, and how long it takes to
// read all endpoints, as the rest of a large table is read.
func BenchmarkKernelGlance(b *testing.B) {
	forSizes(b, func(b *testing.B, backend *Backend, _ *discovery.Store, held *vip.State) {
		table, err := os.Open(tableFile)
		if err != nil {
			b.Fatal(err)
		}
		defer table.Close()
		view := &view{table: table}
		began := time.Now()
		for round := true; round; round = len(view.left) > 0 {
			if _, intact := view.roll(b.Context(), backend.planes.servers); !intact {
				b.Fatal("drift")
			}
		}
		took := time.Since(began)
		for b.Loop() {
			if !backend.intact(b.Context(), view, glanceAt) {
				b.Fatal("drift")
			}
		}
		b.ReportMetric(took.Seconds(), "s/whole")
	})
}

// BenchmarkKernelDrift is how long it takes until Watch tells of an endpoint's
// weight that somebody changed, at servers from all over the table.
func BenchmarkKernelDrift(b *testing.B) {
	forSizes(b, func(b *testing.B, backend *Backend, _ *discovery.Store, held *vip.State) {
		drift := watchOnly(b, backend)
		frontends, worst, i := frontendsOf(held), time.Duration(0), 0
		for b.Loop() {
			f := frontends[i*7919%len(frontends)]
			i++
			select { // of what was seen twice
			case <-drift:
			default:
			}
			began := time.Now()
			editWeight(b, f, 5)
			<-drift
			worst = max(worst, time.Since(began))
			b.StopTimer()
			editWeight(b, f, 1)
			<-time.After(2 * glanceEvery) // until it rolls on
			b.StartTimer()
		}
		b.ReportMetric(worst.Seconds(), "s/worst")
	})
}

func frontendsOf(state *vip.State) []vip.Frontend {
	var list []vip.Frontend
	for v := range state.All() {
		list = append(list, v.Frontend)
	}
	slices.SortFunc(list, vip.Frontend.Compare)
	return list
}

// editWeight has another program give a server's first endpoint another weight.
func editWeight(t testing.TB, f vip.Frontend, weight int) {
	a := f.Addr.As4()
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 128, a[2], a[3]}), 8080)
	command(t, "ipvsadm", "-e", "-t", netip.AddrPortFrom(f.Addr, f.Port).String(), "-r", to.String(), "-m", "-w", fmt.Sprint(weight))
}

// watchOnly has a backend watch the test's namespace; nobody heals.
func watchOnly(t testing.TB, b *Backend) <-chan struct{} {
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	drift, ended := make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := netns.Set(here); err != nil {
			t.Error(err)
			return
		}
		if err := b.Watch(ctx, func() {
			select {
			case drift <- struct{}{}:
			default:
			}
		}); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; here.Close() })
	return drift
}

// TestKernelLargeDrift has somebody edit servers that lie beyond the beginning
// of the table (X02, X03).
func TestKernelLargeDrift(t *testing.T) {
	inKernel(t)
	b, want := kernelBackend(t, Config{}), vip.Planner{}.Plan(viptest.ManyServices(1000).Current(), benchNode)
	mustApply(t, b, nil, want)
	drift := watchOnly(t, b)
	const limit = 2 * time.Second
	for i, f := range frontendsOf(want) {
		if i%100 != 99 {
			continue
		}
		at := netip.AddrPortFrom(f.Addr, f.Port).String()
		a := f.Addr.As4()
		to := fmt.Sprintf("10.128.%d.%d:8080", a[2], a[3])
		damage := []string{
			"ipvsadm -e -t " + at + " -r " + to + " -m -w 5",
			"ipvsadm -d -t " + at + " -r " + to,
			"ipvsadm -E -t " + at + " -s rr -p 77",
			"ipvsadm -D -t " + at,
		}[i/100%4]
		began := time.Now()
		command(t, strings.Fields(damage)...)
		<-drift
		if took := time.Since(began); took > limit {
			t.Errorf("%s: seen after %s, want %s", damage, took, limit)
		} else {
			t.Logf("%s: seen after %s", damage, took.Round(time.Millisecond))
		}
		mustApply(t, b, nil, want)
		select { // of what was seen meanwhile
		case <-drift:
		default:
		}
	}
}

// TestKernelRefusesTheNode has a client that chooses no source address: the
// kernel gives it the cluster address itself.
func TestKernelRefusesTheNode(t *testing.T) {
	inKernel(t)
	mustApply(t, kernelBackend(t, Config{}), nil, plan(t, kernelWorld))
	for _, to := range []string{"10.96.0.7:9", "10.96.0.9:80", "[fd00:96::7]:9"} {
		began := time.Now()
		_, err := net.DialTimeout("tcp", to, 3*time.Second)
		if took := time.Since(began); !errors.Is(err, unix.ECONNREFUSED) || took > time.Second {
			t.Errorf("B58 connecting to %s: got %v after %s, want a refusal at once", to, err, took)
		}
	}
}

// TestKernelGuardsTwice has a client try again from the same port, which
// conntrack takes for the same connection.
func TestKernelGuardsTwice(t *testing.T) {
	inKernel(t)
	mustApply(t, kernelBackend(t, Config{}), nil, plan(t, kernelWorld))
	daemon, err := net.Listen("tcp", ":22")
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	for range 3 {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{Port: 40000}, Timeout: 3 * time.Second}
		c, err := dialer.Dial("tcp", "10.96.0.7:22")
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("B17 connecting to the node's daemon by a cluster address: got %v, want a refusal", err)
		}
	}
}
