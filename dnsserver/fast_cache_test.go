package dnsserver

import (
	"testing"

	"github.com/miekg/dns"
)

// cachedNames are what the upstream of the next test knows.
var cachedNames = []string{
	"one.example.com. 300 IN A 192.0.2.1",
	"many.example.com. 300 IN A 192.0.2.1", "many.example.com. 300 IN A 192.0.2.2", "many.example.com. 300 IN A 192.0.2.3",
	"mail.example.com. 300 IN MX 10 mx.example.com.",
	"text.example.com. 300 IN TXT \"hello\"",
	"example.com. 300 IN SOA ns.example.com. root.example.com. 1 2 3 4 300",
}

// TestFastPathFromTheCache asks for others' names until they are in the cache,
// and then compares what both paths say.
func TestFastPathFromTheCache(t *testing.T) {
	t.Parallel()
	upstream := startWith(t, configFor(), &fakeUpstream{records: rrs(t, "", cachedNames...)})
	for _, lb := range []*LoadBalanceConfig{nil, {}} {
		cfg := fastServer(t, 10)
		b := &cfg.Blocks[0]
		keep := DefaultCacheConfig()
		keep.KeepTTL = true // a second may pass between the two replies
		b.LoadBalance, b.Cache = lb, &keep
		b.Forwards = []ForwardConfig{{From: ".", To: []string{addrOf(upstream).String()}}}
		s := startWith(t, cfg, nil)
		d := &differential{s: s, sv: s.plan["127.0.0.1:0"], fast: newFastPath(s)}
		for _, name := range []string{"one", "many", "mail", "text", "gone"} {
			for _, qtype := range []uint16{dns.TypeA, dns.TypeMX, dns.TypeTXT} {
				for _, with := range []func(*dns.Msg){func(*dns.Msg) {}, edns(1232, false), edns(4096, true)} {
					req := pack(t, askFor(name+".eXample.Com.", qtype, with))
					queryUDP(t, addrOf(s), unpack(t, req))
					hits := d.hits
					d.check(t, protoUDP, req)
					d.check(t, protoTCP, req)
					if d.hits != hits+2 {
						t.Errorf("F3 %s %d: not from the cache", name, qtype)
					}
				}
			}
		}
	}
}

func TestCachedAnswerDoesNotAllocate(t *testing.T) {
	upstream := startWith(t, configFor(), &fakeUpstream{records: rrs(t, "", cachedNames...)})
	cfg := fastServer(t, 10)
	b := &cfg.Blocks[0]
	keep := DefaultCacheConfig()
	b.Cache = &keep
	b.Forwards = []ForwardConfig{{From: ".", To: []string{addrOf(upstream).String()}}}
	s := startWith(t, cfg, nil)
	r := &fastReader{path: newFastPath(s), sv: s.plan["127.0.0.1:0"]}
	for _, name := range []string{"one.example.com.", "many.example.com.", "gone.example.com."} {
		m := askFor(name, dns.TypeA, edns(1232, false))
		queryUDP(t, addrOf(s), m)
		req, ok := pack(t, m), false
		if allocs := testing.AllocsPerRun(100, func() { _, ok = r.answer(req) }); !ok || allocs != 0 {
			t.Errorf("%s: answered %v, with %v allocations", name, ok, allocs)
		}
	}
}
