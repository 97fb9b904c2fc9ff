package dnsserver

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"signpost/discovery"
)

// differential is a server over a random cluster, to ask the same question
// twice: the fast path and the chain.
type differential struct {
	s     *Server
	sv    *serving
	fast  *fastPath
	names []string // that exist, and some beside them
	hits  int      // questions that the fast path has answered
}

// newDifferential makes a server of random options over a random cluster.
func newDifferential(t testing.TB, seed uint64) *differential {
	t.Helper()
	w := newRandomWorld(seed)
	for range 3 + w.IntN(8) {
		w.step()
	}
	snap := w.store.Update(func(tx *discovery.Tx) {
		for i := range 3 {
			tx.PutService(w.large(fmt.Sprintf("big%d", i)))
		}
	})
	config := ClusterConfig{
		Zones: []string{"cluster.local.", "in-addr.arpa.", "ip6.arpa."}, TTL: uint32(w.IntN(MaxTTL)),
		Pods: pick(w.Rand, PodsDisabled, PodsInsecure, PodsVerified), Addrs: propertyConfig.Addrs,
		Fallthrough:        pick(w.Rand, nil, []string{"."}, []string{"in-addr.arpa", "ip6.arpa"}, []string{"red.svc.cluster.local"}),
		RecursionAvailable: w.IntN(2) == 0, PTRHostnameOnly: w.IntN(2) == 0, EndpointPodNames: w.IntN(2) == 0,
	}
	if w.IntN(3) == 0 {
		config.Zones, config.Multicluster = append(config.Zones, "clusterset.local."), []string{"clusterset.local."}
	}
	c, _ := newTestCluster(t, config)
	c.update(snap)
	cfg := configFor()
	b := &cfg.Blocks[0]
	b.Cluster, b.Errors, b.MaxUDPSize = c, true, pick[uint16](w.Rand, 0, 512, 1232, 4096)
	b.LoadBalance = pick(w.Rand, nil, &LoadBalanceConfig{}, &LoadBalanceConfig{SRV: true})
	b.Zones = pick(w.Rand, []string{"."}, []string{"cluster.local", "arpa"})
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	existing := newNaiveZone(snap).names()
	return &differential{
		s: s, sv: s.plan["127.0.0.1:0"], fast: newFastPath(s),
		names: append(w.candidates(existing), "example.com.", ".", "dns-version.clusterset.local.", "ns.dns.cluster.local.", "a.ns.dns.cluster.local."),
	}
}

// large makes a service whose answers don't fit everywhere.
func (w *randomWorld) large(name string) *discovery.Service {
	s := &discovery.Service{Key: discovery.Key{Namespace: "red", Name: name}, Kind: pick(w.Rand, discovery.Headless, discovery.ClusterIP)}
	if s.Kind == discovery.ClusterIP {
		s.ClusterIPs = w.addrs()
	}
	n := w.IntN(pick(w.Rand, 8, 30, 300))
	slice := &discovery.Slice{Ports: []discovery.EndpointPort{{Name: "http", Port: 80}, {Name: "dns", Port: 53}}[:1+w.IntN(2)]}
	for i := range n {
		e := discovery.Endpoint{Ready: true, Addr: netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)})}
		if w.IntN(3) == 0 {
			e.Addr = netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)})
		}
		if w.IntN(3) == 0 {
			e.Hostname = fmt.Sprintf("host-%d", i/3)
		}
		slice.Endpoints = append(slice.Endpoints, e)
	}
	s.Slices = []*discovery.Slice{slice}
	return s
}

// check asks the same question twice and compares the replies.
func (d *differential) check(t testing.TB, p proto, req []byte) {
	t.Helper()
	in, v := inspect(req)
	if v != accept {
		return
	}
	room := make([]byte, 0, maxUDPReply)
	if p == protoTCP {
		room = make([]byte, 0, dns.MaxMsgSize)
	}
	reply, ok := d.fast.answer(d.sv, p, req, &in, room)
	if !ok {
		return
	}
	d.hits++
	c := &captured{}
	d.s.serve(&query{serving: d.sv, proto: p, in: in, raw: req, client: c})
	if len(c.replies) != 1 {
		t.Fatalf("request %x: the chain sent %d replies", req, len(c.replies))
	}
	limit := maxTCPSize
	if p == protoUDP {
		limit = in.edns.udpLimit(d.fast.q.route.udpSize)
	}
	if len(reply.wire) > limit {
		t.Errorf("request %x: %d octets, limit %d", req, len(reply.wire), limit)
	}
	d.compare(t, req, &in, reply.wire, c.replies[0])
}

// compare compares two replies to one request: the same but for the order of
// records that are shuffled and for how names are compressed.
func (d *differential) compare(t testing.TB, req []byte, in *inspected, fast, slow []byte) {
	t.Helper()
	f, s := unpack(t, fast), unpack(t, slow)
	fail := func(what string) {
		t.Helper()
		t.Fatalf("%s differs for %x\nfast: %v\nchain: %v", what, req, f, s)
	}
	if !bytes.Equal(fast[:4], slow[:4]) {
		fail("the header")
	}
	if !bytes.Equal(fast[headerLen:in.question], req[headerLen:in.question]) {
		fail("the question")
	}
	shuffled := d.fast.q.route.fast.shuffle
	switch {
	case s.Truncated && in.qtype == dns.TypeSRV && d.fast.q.route.fast.shuffleSRV:
		if !f.Truncated || len(f.Answer) == 0 { // records of different lengths: others fit
			fail("truncation")
		}
	case !shuffled || !s.Truncated && fits(d, in, slow):
		for _, section := range [][2][]dns.RR{{f.Answer, s.Answer}, {f.Ns, s.Ns}, {f.Extra, s.Extra}} {
			if !slices.Equal(shown(section[0], shuffled), shown(section[1], shuffled)) {
				fail("a section")
			}
		}
	case len(f.Answer) != len(s.Answer) || len(f.Ns) != len(s.Ns) || len(f.Extra) != len(s.Extra):
		fail("the number of records that fit")
	case len(fast) != len(slow) && s.Truncated:
		fail("the size")
	}
	checkDistinct(t, f)
}

// fits reports whether a reply is so far below the limit that nothing was left
// out of it.
func fits(d *differential, in *inspected, reply []byte) bool {
	return d.fast.q.proto == protoTCP || len(reply)+256 < in.edns.udpLimit(d.fast.q.route.udpSize)
}

// shown writes records in presentation format, sorted if their order is left
// to chance.
func shown(rrs []dns.RR, shuffled bool) []string {
	list := make([]string, len(rrs))
	for i, rr := range rrs {
		list[i] = rr.String()
	}
	if shuffled {
		slices.Sort(list)
	}
	return list
}

// checkDistinct checks G9: a shuffle hasn't doubled a record.
func checkDistinct(t testing.TB, m *dns.Msg) {
	t.Helper()
	for _, rrs := range [][]dns.RR{m.Answer, m.Extra} {
		list := shown(rrs, true)
		if len(slices.Compact(list)) != len(rrs) {
			t.Fatalf("a record stands twice (G9): %v", m)
		}
	}
}

// request makes a random request for one of the names.
func (d *differential) request(t testing.TB, r *rand.Rand, name, qtype string) []byte {
	t.Helper()
	m := askFor(mixedCase(r, name), typeOf(qtype))
	m.RecursionDesired, m.CheckingDisabled, m.AuthenticatedData = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
	if r.IntN(2) == 0 {
		m.SetEdns0(pick[uint16](r, 0, 512, 700, 1232, 4096, 65535), r.IntN(2) == 0)
	}
	return pack(t, m)
}

// mixedCase changes the case of some letters (0x20).
func mixedCase(r *rand.Rand, name string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' && r.IntN(4) == 0 {
			return c - 'a' + 'A'
		}
		return c
	}, name)
}

var differentialTypes = []string{"A", "AAAA", "SRV", "PTR", "TXT", "SOA", "NS", "CNAME", "ANY", "HTTPS", "HINFO", "TYPE65280"}

func TestFastPathSaysWhatTheChainSays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			d, r := newDifferential(t, seed), rand.New(rand.NewPCG(seed, 1))
			for _, name := range d.names {
				if new(queryName).parse(name) {
					for _, qtype := range differentialTypes {
						d.check(t, proto(r.IntN(int(numProtos))), d.request(t, r, name, qtype))
					}
				}
			}
			if d.hits < len(d.names)*2 {
				t.Errorf("the fast path has answered %d questions about %d names", d.hits, len(d.names))
			}
		})
	}
}

// FuzzFastPath puts any bytes into both paths, over many clusters.
func FuzzFastPath(f *testing.F) {
	worlds := map[uint64]*differential{}
	for seed := range uint64(3) {
		d, r := newDifferential(f, seed), rand.New(rand.NewPCG(seed, 1))
		worlds[seed] = d
		for range 30 {
			f.Add(seed, r.IntN(2) == 0, d.request(f, r, pick(r, d.names...), pick(r, differentialTypes...)))
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, tcp bool, req []byte) {
		seed %= 64
		if worlds[seed] == nil {
			worlds[seed] = newDifferential(t, seed)
		}
		p := protoUDP
		if tcp {
			p = protoTCP
		}
		worlds[seed].check(t, p, req)
	})
}
