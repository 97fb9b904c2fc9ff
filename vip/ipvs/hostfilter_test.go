package ipvs

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signpost/integration/lab"
	"signpost/vip"
	"signpost/vip/viptest"
)

const filteredWorld = `node n1 addrs=192.168.6.140,fd00:6::140 nodeports=192.168.6.140,fd00:6::140 pods=172.16.0.0/16,fd00:172::/32 services=10.96.0.0/16,fd00:96::/112
service a/web type=NodePort ips=10.96.0.7,fd00:96::7 ports=80->30080
slice a ports=8080
endpoint 172.16.85.10 node=n1
endpoint 172.16.58.10 node=n2
slice b ports=8080
endpoint fd00:172:85::10 node=n1
endpoint fd00:172:58::10 node=n2
service a/local type=LoadBalancer ips=10.96.0.8 ports=80->30081 lb=203.0.113.9 etp=Local
slice a ports=8080
endpoint 172.16.85.10 node=n1
`

// filteringHost is a cluster whose first node drops what is not accepted.
type filteringHost struct {
	*testing.T
	lab     *lab.Lab
	backend *Backend
	want    *vip.State
}

const filterer = "node-a"

func newFilteringHost(t *testing.T, commands ...string) *filteringHost {
	inKernel(t)
	built, err := lab.New(t.Context(), lab.Default(true), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := built.Close(); err != nil {
			t.Errorf("closing the lab: %v", err)
		}
	})
	w, err := viptest.ParseWorld(filteredWorld)
	if err != nil {
		t.Fatal(err)
	}
	h := &filteringHost{T: t, lab: built, backend: kernelBackend(t, Config{}), want: vip.Planner{}.Plan(w.Snapshot, w.Node)}
	for _, c := range commands {
		h.run("%s", c)
	}
	return h
}

func (h *filteringHost) run(format string, args ...any) string {
	h.Helper()
	words := strings.Fields(fmt.Sprintf(format, args...))
	out, err := h.lab.Exec(h.Context(), filterer, words[0], words[1:]...)
	if err != nil {
		h.Fatal(err)
	}
	return out
}

// inside runs f on the node.
func (h *filteringHost) inside(f func() error) {
	h.Helper()
	if err := h.lab.RunIn(filterer, f); err != nil {
		h.Fatal(err)
	}
}

func (h *filteringHost) apply() {
	h.Helper()
	h.inside(func() error { return h.backend.Apply(h.Context(), nil, h.want) })
}

// talks connects often enough for each endpoint, and sends more than the first
// packet: later ones are known to the filter by the connection.
func (h *filteringHost) talks(from, to string) error {
	for range 4 {
		dialer := net.Dialer{Timeout: time.Second}
		c, err := h.lab.DialWith(h.Context(), from, dialer, "tcp", to)
		if err != nil {
			return err
		}
		defer c.Close()
		in := bufio.NewReader(c)
		for range 3 {
			_ = c.SetDeadline(time.Now().Add(time.Second))
			if _, err := fmt.Fprintln(c, "hello"); err != nil {
				return err
			}
			if _, err := in.ReadString('\n'); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestKernelHostDropsByDefault is B22 and I-13, with both kinds of iptables.
func TestKernelHostDropsByDefault(t *testing.T) {
	for _, kind := range []string{"nft", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			var policies []string
			for _, command := range []string{"iptables-", "ip6tables-"} {
				policies = append(policies, command+kind+" -P INPUT DROP", command+kind+" -P FORWARD DROP")
			}
			h := newFilteringHost(t, policies...)
			rules := func() string {
				return h.run("iptables-%s -S", kind) + h.run("ip6tables-%s -S", kind)
			}
			before := rules()
			daemon, err := h.lab.Listen(t.Context(), filterer, "192.168.6.140:22")
			if err != nil {
				t.Fatal(err)
			}
			defer daemon.Close()
			h.apply()
			for _, c := range []struct{ from, to string }{
				{"outside", "192.168.6.140:30080"},
				{"outside", "[fd00:6::140]:30080"},
				{"outside", "192.168.6.140:30081"},
				{"outside", "203.0.113.9:80"},
				{"outside", "10.96.0.7:80"},
				{"pod-b", "10.96.0.7:80"},
				{"pod-b", "[fd00:96::7]:80"},
				{"pod-a", "10.96.0.8:80"},
			} {
				if err := h.talks(c.from, c.to); err != nil {
					t.Errorf("B22 %s to %s: %v", c.from, c.to, err)
				}
			}
			if err := h.talks("outside", "192.168.6.140:22"); err == nil {
				t.Error("B22 the node's own daemon answers, although the host drops")
			}
			first := rules()
			h.apply()
			if diff := cmp.Diff(first, rules()); diff != "" {
				t.Errorf("a second look changes the filter (-before +after):\n%s", diff)
			}
			h.run("iptables-%s -F INPUT", kind)
			h.run("ip6tables-%s -D SIGNPOST-IPVS 1", kind)
			h.apply()
			if diff := cmp.Diff(first, rules()); diff != "" {
				t.Errorf("X03 not healed (-before +after):\n%s", diff)
			}
			h.inside(func() error { return kernelBackend(t, Config{}).Cleanup(t.Context()) })
			if diff := cmp.Diff(before, rules()); diff != "" {
				t.Errorf("I-17 what a cleanup leaves (-before +after):\n%s", diff)
			}
		})
	}
}

// TestKernelHostFilterWatched has a firewall start, and start anew, while this
// program runs; and where there is none, none is made.
func TestKernelHostFilterWatched(t *testing.T) {
	h := newFilteringHost(t)
	h.apply()
	if tables := h.run("nft list tables"); strings.Contains(tables, "filter") {
		t.Errorf("a filter is made where the host has none: %s", tables)
	}
	if names := h.run("cat /proc/net/ip_tables_names"); names != "" {
		t.Errorf("a legacy table is made where the host has none: %s", names)
	}
	h.inside(func() error {
		watching(t, h.backend, h.want)
		return nil
	})
	for _, step := range []string{"iptables-nft -P INPUT DROP", "iptables-nft -F INPUT", "nft flush ruleset"} {
		h.run("%s", step)
		began := time.Now()
		for err := h.talks("outside", "192.168.6.140:30080"); err != nil; err = h.talks("outside", "192.168.6.140:30080") {
			if took := time.Since(began); took > 10*time.Second {
				t.Fatalf("X03 after %s: %v after %s", step, err, took)
			}
		}
	}
}
