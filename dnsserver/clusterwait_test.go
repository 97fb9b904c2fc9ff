package dnsserver

import (
	"testing"
	"time"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// TestStartupTimeout checks startup_timeout (L1, L2): who asks too early gets
// the answer that there is when the source is complete, other zones wait for
// nothing.
func TestStartupTimeout(t *testing.T) {
	t.Parallel()
	const name = "web.ns.svc.cluster.local."
	start := func(timeout time.Duration) (*Cluster, *discovery.Store, *Server) {
		cluster, store := newTestCluster(t, ClusterConfig{Zones: []string{"cluster.local"}, StartupTimeout: timeout})
		cfg := configFor()
		cfg.Blocks[0].Cluster, cfg.Blocks[0].Whoami = cluster, true
		return cluster, store, startWith(t, cfg, nil)
	}

	cluster, store, s := start(time.Hour)
	early := dialUDP(t, addrOf(s))
	if _, err := early.Write(pack(t, askFor(name, dns.TypeA))); err != nil {
		t.Fatal(err)
	}
	until(t, "L1 a query waits", func() bool { return cluster.start.waiting.Load() == 1 })
	if m := queryUDP(t, addrOf(s), askFor("other.example.", dns.TypeA)); m.Rcode != dns.RcodeSuccess {
		t.Errorf("L1 another zone: %s", show(m))
	}
	cluster.update(store.Update((*discovery.Tx).MarkSynced))
	if m := unpack(t, readUDP(t, early)); m.Rcode != dns.RcodeNameError {
		t.Errorf("L1 complete: %s", show(m))
	}
	if cluster.start.wait(t.Context()) != true {
		t.Error("L1 later: waits")
	}

	for what, timeout := range map[string]time.Duration{"L2 no timeout": 0, "L2 a short one": time.Millisecond} {
		_, _, s := start(timeout)
		if m := queryUDP(t, addrOf(s), askFor(name, dns.TypeA)); m.Rcode != dns.RcodeServerFailure || len(m.Ns) != 0 {
			t.Errorf("%s: %s", what, show(m))
		}
	}
}

// TestStartupTimeoutBound checks that only so many queries wait.
func TestStartupTimeoutBound(t *testing.T) {
	t.Parallel()
	p := newPatientStart(time.Hour)
	p.waiting.Store(maxPatient)
	if p.wait(t.Context()) {
		t.Error("L1 one too many waited")
	}
	if n := p.waiting.Load(); n != maxPatient {
		t.Errorf("L1 %d count as waiting", n)
	}
}
