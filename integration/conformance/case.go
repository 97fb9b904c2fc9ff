package conformance

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// feature is one thing that a dataplane can do: a world, and packets with what has to become of
// them. Both are written for IPv4 and protocol P, and hold in both families and
// for TCP, UDP and SCTP, all at once.
//
// A packet is a line "FROM TO OUTCOME": from a host, or HOST/ADDRESS; to
// ADDRESS:PORT/P; the outcome is a list of pods (by name; port 8080 unless
// given) and "+snat" if they do not see the client's address whichever of them it is, or
// "refused", "dropped" or "passes".
type feature struct {
	name    string
	node    string // the node's line; empty: the usual one
	world   string
	packets string
}

// The node under test as it is planned for: the pods' and the
// services' ranges are known.
const (
	bareNode  = "node n1 zone=a addrs=192.168.6.1,fd00:6::1 nodeports=192.168.6.1,fd00:6::1 peers=192.168.6.2,fd00:6::2 services=10.96.0.0/16,fd00:96::/112"
	usualNode = bareNode + " pods=172.16.0.0/16,fd00:16::/64"
)

// variant is a family and a protocol.
type variant struct {
	v6       bool
	protocol discovery.Protocol
}

func variants() []variant {
	var list []variant
	for _, p := range []discovery.Protocol{discovery.TCP, discovery.UDP, discovery.SCTP} {
		list = append(list, variant{false, p}, variant{true, p})
	}
	return list
}

func (v variant) String() string {
	family := "ip4"
	if v.v6 {
		family = "ip6"
	}
	return family + "-" + strings.ToLower(v.protocol.String())
}

// state plans the feature's world.
func (f feature) state() (*vip.State, error) { return plan(f.text()) }

// text is the world in all variants together.
func (f feature) text() string {
	first := f.node
	if first == "" {
		first = usualNode
	}
	text := []string{first}
	for _, v := range variants() {
		text = append(text, v.translate(f.world))
	}
	return strings.Join(text, "\n")
}

var (
	indented         = regexp.MustCompile(`\n[ \t]+`)
	addressOrNetwork = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+(/\d+)?`)
)

// translate makes a world one of its variants, with services of its own.
func (v variant) translate(world string) string {
	world = indented.ReplaceAllString(world, "\n")
	world = strings.ReplaceAll(world, "service a/", "service "+v.String()+"/")
	world = strings.ReplaceAll(world, "/P", "/"+v.protocol.String())
	if !v.v6 {
		return world
	}
	return addressOrNetwork.ReplaceAllStringFunc(world, func(text string) string {
		address, bits, isNetwork := strings.Cut(text, "/")
		six := six(netip.MustParseAddr(address)).String()
		switch {
		case !isNetwork:
			return six
		case bits == "32":
			return six + "/128"
		default:
			return six + "/64"
		}
	})
}

// six is the IPv6 address that stands for an IPv4 address of the lab.
func six(a netip.Addr) netip.Addr {
	if a.Is6() {
		return a
	}
	text := a.String()
	dot := strings.LastIndexByte(text, '.')
	prefix, known := map[string]string{
		"10.96.0": "fd00:96::", "172.16.0": "fd00:16::", "172.16.1": "fd00:16::10",
		"192.168.6": "fd00:6::", "192.168.7": "fd00:7::", "203.0.113": "2001:db8:1::",
		"198.51.100": "2001:db8:2::", "198.18.0": "2001:db8:99::", "127.0.0": "::",
	}[text[:dot]]
	if !known {
		return netip.MustParseAddr("2001:db8:ffff::" + text[dot+1:])
	}
	last := text[dot+1:]
	if last == "0" {
		last = ""
	}
	return netip.MustParseAddr(prefix + last)
}

// probes reads the feature's packets, in all variants.
func (f feature) probes(s *site, limits Limits) ([]probe, error) {
	var list []probe
	for line := range strings.Lines(f.packets) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		for _, v := range variants() {
			p, err := v.probe(s, words)
			if err != nil {
				return nil, fmt.Errorf("reading packet %q: %w", strings.TrimSpace(line), err)
			}
			if p.To.Protocol == discovery.SCTP && limits.NoSCTP {
				continue
			}
			list = append(list, p)
		}
	}
	return list, nil
}

func (v variant) probe(s *site, words []string) (probe, error) {
	if len(words) < 3 {
		return probe{}, fmt.Errorf("must be FROM TO OUTCOME")
	}
	host, from, given := strings.Cut(words[0], "/")
	p := probe{host: host}
	p.From = s.addr(host, v.v6)
	if given {
		p.From = v.addr(netip.MustParseAddr(from))
	}
	to, err := vip.ParseFrontend(strings.ReplaceAll(words[1], "/P", "/"+v.protocol.String()))
	if err != nil {
		return probe{}, err
	}
	p.To = to
	p.To.Addr = v.addr(to.Addr)
	p.Source = sourceOf(host)
	p.want, err = v.outcome(s, words[2:])
	return p, err
}

func (v variant) addr(a netip.Addr) netip.Addr {
	if v.v6 {
		return six(a)
	}
	return a
}

func sourceOf(host string) vip.Source {
	switch {
	case host == node:
		return vip.FromNode
	case strings.HasPrefix(host, "p"), strings.HasPrefix(host, "q"):
		return vip.FromPod
	default:
		return vip.FromOutside
	}
}

func (v variant) outcome(s *site, words []string) (viptest.Outcome, error) {
	actions := map[string]viptest.Action{"refused": viptest.Reject, "dropped": viptest.Drop, "passes": viptest.Pass}
	if words[0] == "any" { // the test knows
		return viptest.Outcome{}, nil
	}
	if action, ok := actions[words[0]]; ok {
		return viptest.Outcome{Action: action}, nil
	}
	o := viptest.Outcome{Action: viptest.Forward}
	for _, word := range words {
		if word == "+snat" {
			o.SNAT = true
			continue
		}
		name, port, given := strings.Cut(word, ":")
		number := uint64(podPorts[0])
		if given {
			var err error
			if number, err = strconv.ParseUint(port, 10, 16); err != nil {
				return o, fmt.Errorf("reading %q: %w", word, err)
			}
		}
		a := s.addr(name, v.v6)
		if !a.IsValid() {
			return o, fmt.Errorf("reading %q: there is no such pod", word)
		}
		o.Endpoints = append(o.Endpoints, netip.AddrPortFrom(a, uint16(number)))
	}
	slices.SortFunc(o.Endpoints, netip.AddrPort.Compare)
	return o, nil
}
