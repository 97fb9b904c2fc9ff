package dnsserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/miekg/dns"

	"signpost/discovery"
	"signpost/dnsserver"
)

// printer is a client that prints the answer.
type printer struct{ dns.ResponseWriter }

func (printer) WriteMsg(m *dns.Msg) error {
	fmt.Println(dns.RcodeToString[m.Rcode], m.Answer)
	return nil
}

func ExampleCluster() {
	store := discovery.NewStore()
	store.Update(func(tx *discovery.Tx) {
		tx.PutService(&discovery.Service{
			Key:        discovery.Key{Namespace: "default", Name: "web"},
			ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.20")},
			Ports:      []discovery.Port{{Name: "http", Port: 80}},
		})
		tx.MarkSynced()
	})
	config := dnsserver.ClusterConfig{Zones: []string{"cluster.local", "in-addr.arpa"}, TTL: dnsserver.DefaultTTL}
	if err := config.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	cluster := dnsserver.NewCluster(config, store, slog.New(slog.DiscardHandler))

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- cluster.Run(ctx) }()

	zones := cluster.Middleware(nil)
	for _, q := range []struct {
		name  string
		qtype uint16
	}{
		{"web.default.svc.cluster.local.", dns.TypeA},
		{"_http._tcp.web.default.svc.cluster.local.", dns.TypeSRV},
		{"20.0.96.10.in-addr.arpa.", dns.TypePTR},
		{"nobody.default.svc.cluster.local.", dns.TypeA},
	} {
		zones.ServeDNS(printer{}, new(dns.Msg).SetQuestion(q.name, q.qtype))
	}
	cancel()
	<-done
	// Output:
	// NOERROR [web.default.svc.cluster.local.	5	IN	A	10.96.0.20]
	// NOERROR [_http._tcp.web.default.svc.cluster.local.	5	IN	SRV	0 100 80 web.default.svc.cluster.local.]
	// NOERROR [20.0.96.10.in-addr.arpa.	5	IN	PTR	web.default.svc.cluster.local.]
	// NXDOMAIN []
}
