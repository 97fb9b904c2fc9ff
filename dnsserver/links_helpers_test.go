package dnsserver

import (
	"net"

	"github.com/miekg/dns"
)

// refuseTransfer is the link of a block without a transfer rule.
func refuseTransfer(next dns.Handler) dns.Handler {
	link, err := new(Server).transfer(&Block{})
	if err != nil {
		panic(err)
	}
	return link(next)
}

// dialerFrom sends from an address of loopback.
func dialerFrom(addr string) *net.Dialer {
	return &net.Dialer{Timeout: patience, LocalAddr: &net.UDPAddr{IP: net.ParseIP(addr)}}
}
