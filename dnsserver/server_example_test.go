package dnsserver_test

import (
	"context"
	"fmt"

	"signpost/dnsserver"

	"github.com/miekg/dns"
)

// A server with one block that knows no names refuses every query.
func ExampleServer() {
	s, err := dnsserver.New(dnsserver.Config{
		Blocks: []dnsserver.Block{{
			Zones:       []string{"example.org"},
			Listen:      []string{"127.0.0.1:0"},
			LoadBalance: &dnsserver.LoadBalanceConfig{},
			// Cluster and Forwards say what answers.
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := s.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	reply, err := dns.Exchange(new(dns.Msg).SetQuestion("www.example.org.", dns.TypeA), s.Addrs()[0].String())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(dns.RcodeToString[reply.Rcode])
	fmt.Println(s.Shutdown(ctx))
	// Output:
	// REFUSED
	// <nil>
}
