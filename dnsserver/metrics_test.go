package dnsserver

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
)

func addrOfText(s string) netip.Addr { return netip.MustParseAddr(s) }

// scrape returns the metrics as text.
func scrape(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestMetrics checks names, labels and numbers after known queries.
func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	up := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg {
		if r.Question[0].Name == "missing.example." {
			return []*dns.Msg{new(dns.Msg).SetRcode(r, dns.RcodeNameError)}
		}
		return []*dns.Msg{good(t, r, "@ 60 IN A 192.0.2.1")}
	})
	cfg, _ := forwardTo(up)
	cfg.Registerer = reg
	cfg.Blocks[0].Zones = []string{"example"}
	cfg.Blocks = append(cfg.Blocks,
		Block{Zones: []string{"uncounted."}, Listen: cfg.Blocks[0].Listen},
		Block{Zones: []string{"v6."}, Listen: []string{"[::1]:0"}, Metrics: true})
	s := startWith(t, cfg, nil)
	to := s.Addrs()[0]
	for range 2 {
		queryUDP(t, to, askFor("a.example.", dns.TypeA, edns(1232, true)))
	}
	queryTCP(t, to, askFor("missing.example.", dns.TypeSRV))
	queryUDP(t, to, askFor("a.example.", dns.TypeHINFO))
	queryUDP(t, to, askFor("a.uncounted.", dns.TypeA))
	queryUDP(t, to, askFor("elsewhere.", dns.TypeA))
	queryUDP(t, s.Addrs()[1], askFor("v6.", dns.TypeAAAA))
	exchangeUDP(t, to, raw(hexID, "1000", hexOne, hexName, hexA)) // STATUS
	if err := s.Shutdown(t.Context()); err != nil {               // counting comes after replying
		t.Error(err)
	}

	got := scrape(t, reg)
	for _, want := range []string{
		`coredns_dns_requests_total{family="1",proto="udp",server="dns://127.0.0.1:0",type="A",view="",zone="example."} 2`,
		`coredns_dns_requests_total{family="1",proto="tcp",server="dns://127.0.0.1:0",type="SRV",view="",zone="example."} 1`,
		`coredns_dns_requests_total{family="1",proto="udp",server="dns://127.0.0.1:0",type="other",view="",zone="example."} 1`,
		`coredns_dns_requests_total{family="1",proto="udp",server="dns://127.0.0.1:0",type="A",view="",zone="dropped"} 1`,
		`coredns_dns_requests_total{family="1",proto="udp",server="dns://127.0.0.1:0",type="other",view="",zone="dropped"} 1`,
		`coredns_dns_requests_total{family="2",proto="udp",server="dns://[::1]:0",type="AAAA",view="",zone="v6."} 1`,
		`coredns_dns_do_requests_total{server="dns://127.0.0.1:0",view="",zone="example."} 2`,
		`coredns_dns_responses_total{plugin="forward",rcode="NOERROR",server="dns://127.0.0.1:0",view="",zone="example."} 3`,
		`coredns_dns_responses_total{plugin="forward",rcode="NXDOMAIN",server="dns://127.0.0.1:0",view="",zone="example."} 1`,
		`coredns_dns_responses_total{plugin="",rcode="REFUSED",server="dns://127.0.0.1:0",view="",zone="dropped"} 1`,
		`coredns_dns_responses_total{plugin="",rcode="NOTIMP",server="dns://127.0.0.1:0",view="",zone="dropped"} 1`,
		`coredns_dns_responses_total{plugin="",rcode="REFUSED",server="dns://[::1]:0",view="",zone="v6."} 1`,
		`coredns_dns_request_duration_seconds_count{server="dns://127.0.0.1:0",type="A",view="",zone="example."} 2`,
		`coredns_dns_request_size_bytes_bucket{proto="udp",server="dns://127.0.0.1:0",view="",zone="example.",le="100"} 3`,
		`coredns_dns_response_size_bytes_count{proto="tcp",server="dns://127.0.0.1:0",view="",zone="example."} 1`,
		`coredns_proxy_request_duration_seconds_count{proxy_name="forward",rcode="NXDOMAIN",to="` + up.addr.String() + `"} 1`,
		`coredns_panics_total 0`, `coredns_forward_max_concurrent_rejects_total 0`, `signpost_dns_dropped_total{reason="overload"} 0`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(got, "uncounted") {
		t.Error("a block without metrics is counted")
	}
	if t.Failed() {
		t.Log(got)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil {
		t.Error(err)
	} else {
		for _, p := range problems {
			if strings.HasPrefix(p.Metric, "signpost_") { // CoreDNS's names are as they are
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
	}
}

// TestCounters checks the sums of shards.
func TestCounters(t *testing.T) {
	t.Parallel()
	c := new(counters)
	in := inspected{qtype: dns.TypeAAAA, rcode: 4000}
	for range 3 {
		c.reject(protoTCP, addrOfText("::ffff:192.0.2.1"), &in, 100000)
	}
	c.shards[5].requests[protoTCP][0][typeIndex(dns.TypeAAAA)].Add(4)
	sum := c.sum()
	if n := sum.requests[protoTCP][0][typeIndex(dns.TypeAAAA)]; n != 7 {
		t.Errorf("%d requests, want 7", n)
	}
	if n := sum.responses[answeredByNone][numRcodes-1]; n != 3 {
		t.Errorf("%d responses with an unheard-of rcode, want 3", n)
	}
	if n := sum.requestSize[protoTCP].buckets[len(sizeBuckets)]; n != 3 {
		t.Errorf("%d requests beyond all buckets, want 3", n)
	}
}
