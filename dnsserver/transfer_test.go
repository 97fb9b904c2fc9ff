package dnsserver

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// transferServer serves cluster.local with 200 services, to be transferred to
// loopback.
func transferServer(t *testing.T, cfg TransferConfig) (*Server, *Cluster, *discovery.Store) {
	t.Helper()
	cluster, store := clusterOf(t, ClusterConfig{
		Zones: []string{"cluster.local", "in-addr.arpa"}, TTL: 5,
		Addrs: func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("192.0.2.53")} },
	}, "")
	cluster.update(store.Update(func(tx *discovery.Tx) {
		tx.MarkSynced()
		tx.PutService(headlessOf(200))
		for i := range byte(200) {
			tx.PutService(&discovery.Service{
				Key:        discovery.Key{Namespace: "ns", Name: "svc-" + string('a'+rune(i%26)) + string('a'+rune(i/26))},
				ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, i})},
				Ports:      []discovery.Port{{Name: "http", Protocol: discovery.TCP, Port: 80}},
			})
		}
	}))
	return serveBlock(t, func(b *Block) {
		b.Cluster = cluster
		b.Transfers = []TransferConfig{cfg}
	}), cluster, store
}

// axfr transfers a zone and returns its records.
func axfr(t *testing.T, to netip.AddrPort, m *dns.Msg) ([]dns.RR, int, error) {
	t.Helper()
	envelopes, err := new(dns.Transfer).In(m, to.String())
	if err != nil {
		return nil, 0, err
	}
	var rrs []dns.RR
	n := 0
	for e := range envelopes {
		if e.Error != nil {
			return rrs, n, e.Error
		}
		rrs = append(rrs, e.RR...)
		n++
	}
	return rrs, n, nil
}

var loopbackPeer = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53")}

// TestTransfer checks AXFR: SOA first and last, every record that a query can
// return once, nothing else, in several messages (§13).
func TestTransfer(t *testing.T) {
	t.Parallel()
	s, cluster, _ := transferServer(t, TransferConfig{To: loopbackPeer})
	rrs, messages, err := axfr(t, addrOf(s), new(dns.Msg).SetAxfr("Cluster.local."))
	if err != nil {
		t.Fatal(err)
	}
	first, isSOA := rrs[0].(*dns.SOA)
	last, alsoSOA := rrs[len(rrs)-1].(*dns.SOA)
	if !isSOA || !alsoSOA || first.Serial != cluster.Serial() || last.Serial != first.Serial {
		t.Fatalf("§13 begins with %v, ends with %v", rrs[0], rrs[len(rrs)-1])
	}
	if messages < 2 {
		t.Errorf("§13 %d messages for %d records", messages, len(rrs))
	}
	want := map[string]bool{}
	for r := range cluster.Records() {
		if dns.IsSubDomain("cluster.local.", r.Name) && r.Type != "SOA" {
			want[strings.ToLower(r.Name)+" "+r.Type+" "+r.Data] = true
		}
	}
	for i, rr := range rrs[1 : len(rrs)-1] {
		h := rr.Header()
		key := h.Name + " " + dns.TypeToString[h.Rrtype] + " " + strings.TrimPrefix(rr.String(), h.String())
		if !want[key] {
			t.Errorf("§13 twice, or not to be had by a query: %s", rr)
		}
		delete(want, key)
		if i%50 == 0 { // each is to be had: a sample of them
			m := overSocket(t, "tcp", addrOf(s), h.Name, dns.TypeToString[h.Rrtype], 0)
			if !slices.ContainsFunc(m.Answer, func(got dns.RR) bool { return got.String() == rr.String() }) {
				t.Errorf("§13 %s: a query says %s", rr, brief(m))
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("§13 missing: %q", slices.Sorted(maps.Keys(want)))
	}
	if rrs, _, err := axfr(t, addrOf(s), new(dns.Msg).SetAxfr("in-addr.arpa.")); err != nil || len(rrs) < 200 {
		t.Errorf("reverse zone: %d records, error %v", len(rrs), err)
	}
}

// TestTransferRules checks who may have what (W25), and IXFR.
func TestTransferRules(t *testing.T) {
	t.Parallel()
	others, _, _ := transferServer(t, TransferConfig{To: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53")}})
	all, cluster, _ := transferServer(t, TransferConfig{ToAll: true, Zones: []string{"cluster.local"}})
	soa := func(serial uint32) *dns.Msg {
		return new(dns.Msg).SetIxfr("cluster.local.", serial, "ns.dns.cluster.local.", "hostmaster.cluster.local.")
	}
	tests := []struct {
		name, network string
		s             *Server
		m             *dns.Msg
		want          string
	}{
		{"W25 not a peer", "tcp", others, new(dns.Msg).SetAxfr("cluster.local."), "REFUSED"},
		{"W25 IXFR, not a peer", "tcp", others, soa(1), "REFUSED"},
		{"W25 another zone", "tcp", all, new(dns.Msg).SetAxfr("in-addr.arpa."), "REFUSED"},
		{"W25 not a zone", "tcp", all, new(dns.Msg).SetAxfr("svc.cluster.local."), "REFUSED"},
		{"W25 AXFR over UDP", "udp", all, new(dns.Msg).SetAxfr("cluster.local."), "REFUSED"},
		{"§13 IXFR over UDP", "udp", all, soa(1), "SOA"},
		{"§13 IXFR with our serial", "tcp", all, soa(cluster.Serial()), "SOA"},
		{"§13 IXFR with a later serial", "tcp", all, soa(cluster.Serial() + 5), "SOA"},
	}
	for _, tt := range tests {
		client := dns.Client{Net: tt.network, Timeout: patience}
		m, _, err := client.Exchange(tt.m, addrOf(tt.s).String())
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := rcodeLabel(m.Rcode)
		if len(m.Answer) == 1 {
			got = dns.TypeToString[m.Answer[0].Header().Rrtype]
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, brief(m), tt.want)
		}
	}
	if rrs, _, err := axfr(t, addrOf(all), soa(cluster.Serial()-1)); err != nil || len(rrs) < 200 {
		t.Errorf("§13 IXFR with an old serial: %d records, error %v; want all", len(rrs), err)
	}
}

// TestNotify checks that peers are told at the start and of each change (§13).
func TestNotify(t *testing.T) {
	t.Parallel()
	told := make(chan *dns.SOA, 10)
	peer := &dns.Server{Addr: "127.0.0.1:0", Net: "udp", Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if r.Opcode == dns.OpcodeNotify && len(r.Answer) == 1 {
			told <- r.Answer[0].(*dns.SOA)
		}
		_ = w.WriteMsg(new(dns.Msg).SetReply(r))
	})}
	ready := make(chan struct{})
	peer.NotifyStartedFunc = func() { close(ready) }
	go func() { _ = peer.ListenAndServe() }()
	<-ready
	t.Cleanup(func() { _ = peer.Shutdown() })

	rule := TransferConfig{
		Zones: []string{"cluster.local"}, To: []netip.AddrPort{netip.MustParseAddrPort(peer.PacketConn.LocalAddr().String())},
		Source: netip.MustParseAddr("127.0.0.1"),
	}
	_, cluster, store := transferServer(t, rule)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); cluster.Notify(ctx, []TransferConfig{rule}) }()
	if soa := <-told; soa.Serial != cluster.Serial() || soa.Hdr.Name != "cluster.local." {
		t.Errorf("§13 at the start: %v", soa)
	}
	cluster.update(store.Update(func(tx *discovery.Tx) { tx.DeleteService(discovery.Key{Namespace: "ns", Name: "svc-aa"}) }))
	if soa := <-told; soa.Serial != cluster.Serial() {
		t.Errorf("§13 after a change: %v, want serial %d", soa, cluster.Serial())
	}
	cancel()
	<-done
}
