package dnsserver

import "github.com/miekg/dns"

// refuseTransfer is the link of a block without a transfer rule.
func refuseTransfer(next dns.Handler) dns.Handler {
	link, err := new(Server).transfer(&Block{})
	if err != nil {
		panic(err)
	}
	return link(next)
}
