package dnsserver

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// EDNS0Action is what a rewrite does with an option.
type EDNS0Action uint8

// The actions of CoreDNS's "rewrite edns0".
const (
	// EDNS0Set replaces the option or adds it.
	EDNS0Set EDNS0Action = iota
	// EDNS0Append adds it where it is missing.
	EDNS0Append
	// EDNS0Replace changes it where it is there.
	EDNS0Replace
	// EDNS0Unset takes it away.
	EDNS0Unset
)

// EDNS0Rewrite changes one option of a query's OPT record. Upstreams see it;
// replies to clients have options of our own only.
type EDNS0Rewrite struct {
	Action EDNS0Action
	// Code is the option: NSID, client subnet, or one for local use.
	Code uint16
	// Data of an option for local use: text, hexadecimal after 0x, or one of
	// {qname}, {qtype}, {client_ip}, {client_port}, {protocol}, {server_ip} and
	// {server_port}.
	Data string
	// V4Bits and V6Bits are how much of the client's address its subnet is.
	V4Bits, V6Bits uint8
}

// EDNS0Variables are what stands for a value of the query in Data.
var EDNS0Variables = []string{
	"{qname}", "{qtype}", "{client_ip}", "{client_port}", "{protocol}", "{server_ip}", "{server_port}",
}

func (e EDNS0Rewrite) validate() error {
	variable := strings.HasPrefix(e.Data, "{") && strings.HasSuffix(e.Data, "}")
	switch {
	case e.Action > EDNS0Unset:
		return fmt.Errorf("edns0 action %d: unknown", e.Action)
	case e.V4Bits > 32 || e.V6Bits > 128:
		return fmt.Errorf("edns0 subnet %d %d: must be at most 32 and 128", e.V4Bits, e.V6Bits)
	case variable && !slices.Contains(EDNS0Variables, e.Data):
		return fmt.Errorf("edns0 %s: must be one of %s", e.Data, strings.Join(EDNS0Variables, ", "))
	}
	if digits, ok := strings.CutPrefix(e.Data, "0x"); ok {
		if _, err := hex.DecodeString(digits); err != nil {
			return fmt.Errorf("edns0 %s: %w", e.Data, err)
		}
	}
	return nil
}

// apply changes the query's options; false if there was nothing to do.
func (e EDNS0Rewrite) apply(p *rewritePass) bool {
	opt := p.req.IsEdns0()
	at := -1
	if opt != nil {
		at = slices.IndexFunc(opt.Option, func(o dns.EDNS0) bool { return o.Option() == e.Code })
	}
	skip := e.Action == EDNS0Append && at >= 0 || (e.Action == EDNS0Replace || e.Action == EDNS0Unset) && at < 0
	if skip {
		return false
	}
	m := p.own()
	if opt = m.IsEdns0(); opt == nil {
		m.SetEdns0(defaultUDPSize, false)
		opt = m.IsEdns0()
	}
	if at >= 0 {
		opt.Option = slices.Delete(opt.Option, at, at+1)
	}
	if e.Action != EDNS0Unset {
		opt.Option = append(opt.Option, e.option(p))
	}
	return true
}

// option makes the option.
func (e EDNS0Rewrite) option(p *rewritePass) dns.EDNS0 {
	switch e.Code {
	case dns.EDNS0NSID:
		return &dns.EDNS0_NSID{Code: dns.EDNS0NSID}
	case dns.EDNS0SUBNET:
		return e.subnet(clientOf(p.w).Addr())
	}
	return &dns.EDNS0_LOCAL{Code: e.Code, Data: e.data(p)}
}

// subnet is the client's network (RFC 7871).
func (e EDNS0Rewrite) subnet(a netip.Addr) dns.EDNS0 {
	o := &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 2, SourceNetmask: e.V6Bits}
	if a.Is4() {
		o.Family, o.SourceNetmask = 1, e.V4Bits
	}
	network, err := a.Prefix(int(o.SourceNetmask))
	if err != nil {
		network = netip.PrefixFrom(a, a.BitLen())
	}
	o.Address = net.IP(network.Addr().AsSlice())
	return o
}

// data is what the option says about this query.
func (e EDNS0Rewrite) data(p *rewritePass) []byte {
	q, client := p.req.Question[0], clientOf(p.w)
	switch e.Data {
	case "{qname}":
		return []byte(q.Name)
	case "{qtype}":
		return []byte{byte(q.Qtype >> 8), byte(q.Qtype)}
	case "{client_ip}":
		return client.Addr().AsSlice()
	case "{client_port}":
		return []byte{byte(client.Port() >> 8), byte(client.Port())}
	case "{protocol}":
		return []byte(protoOf(p.w).String())
	case "{server_ip}", "{server_port}":
		return e.serverData(p)
	}
	if digits, ok := strings.CutPrefix(e.Data, "0x"); ok {
		raw, _ := hex.DecodeString(digits) // checked by validate
		return raw
	}
	return []byte(e.Data)
}

// serverData is the address or port that the query was sent to.
func (e EDNS0Rewrite) serverData(p *rewritePass) []byte {
	q := queryOf(p.w)
	if q == nil {
		return nil
	}
	local := q.client.local()
	if e.Data == "{server_ip}" {
		return local.Addr().Unmap().AsSlice()
	}
	return []byte{byte(local.Port() >> 8), byte(local.Port())}
}
