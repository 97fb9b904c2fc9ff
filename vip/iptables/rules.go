package iptables

import (
	"fmt"
	"math"
	"strings"

	"signpost/vip"
)

// This file is what iptables mode does with a virtual server; doc.go has the
// drawing, skeleton.go what does not depend on any Service.

// rule is one rule as iptables-save shows it, without "-A CHAIN".
type rule struct {
	text  string
	owner vip.Frontend // who fails if the kernel refuses it; zero: nobody
}

// chain is a chain and its rules, in order.
type chain struct {
	name  string
	rules []rule
}

// compiler makes rules of virtual servers.
type compiler struct {
	family *family
	pods   vip.Detector
}

// inlineLimit is the number of endpoints above which a server gets a chain of
// its own, so that others in its leaf don't have to pass all of them.
const inlineLimit = 16

const (
	accept = "-j ACCEPT"
	drop   = "-j DROP"
	back   = "-j RETURN"
	refuse = "-j " + refuseChain
	mark   = "-j MARK --set-xmark 0x4000/0x4000"
)

// translate returns a virtual server's part of the nat table: rules of its
// leaf, and chains of its own.
func (c compiler) translate(v *vip.VirtualServer) ([]rule, []chain) {
	match := matchOf(v)
	switch {
	case !reachable(v):
		return ownedBy(v, []string{match + commentOf(v) + accept}), nil
	case inline(v):
		texts := c.deliver(v, v.Routes[0].Set, "")
		for i := range texts {
			texts[i] = match + texts[i]
		}
		texts[0] = match + commentOf(v) + strings.TrimPrefix(texts[0], match)
		return ownedBy(v, texts), nil
	}
	entry := "V"
	var chains []chain
	if v.Restricted {
		entry = "A"
		chains = append(chains, c.admit(v, "-g "+chainName("V", v.Frontend), accept))
	}
	chains = append(chains, c.choose(v)...)
	return ownedBy(v, []string{match + commentOf(v) + "-g " + chainName(entry, v.Frontend)}), chains
}

// admit goes on with those inside the source ranges (P-18).
func (c compiler) admit(v *vip.VirtualServer, inside, outside string) chain {
	var texts []string
	for _, p := range c.family.ownPrefixes(v.SourceRanges) {
		texts = append(texts, fromNetwork(p)+inside)
	}
	return ownChain("A", v, append(texts, outside))
}

// choose tells sources apart where they have different endpoints.
func (c compiler) choose(v *vip.VirtualServer) []chain {
	if oneSet(v) {
		return []chain{ownChain("V", v, c.deliver(v, v.Routes[0].Set, fromProtocol(v)))}
	}
	texts := markFor(v)
	used := map[vip.Set]bool{}
	texts = append(texts, c.bySource(func(s vip.Source) string {
		set := v.Routes[s].Set
		if len(v.Endpoints(set)) == 0 {
			return accept
		}
		used[set] = true
		return "-g " + chainName(setChain(set), v.Frontend)
	})...)
	chains := []chain{ownChain("V", v, texts)}
	for _, set := range []vip.Set{vip.ClusterSet, vip.LocalSet} {
		if used[set] {
			chains = append(chains, ownChain(setChain(set), v, pick(v, set, fromProtocol(v), c.family)))
		}
	}
	return chains
}

// deliver marks what has to be masqueraded and translates to an endpoint.
func (c compiler) deliver(v *vip.VirtualServer, set vip.Set, match string) []string {
	return append(markFor(v), pick(v, set, match, c.family)...)
}

// pick translates to one of the endpoints: to the one that the client knows,
// else to any, each with the same probability.
func pick(v *vip.VirtualServer, set vip.Set, match string, f *family) []string {
	endpoints := v.Endpoints(set)
	texts := make([]string, 0, len(endpoints))
	if v.Affinity > 0 {
		for _, e := range endpoints {
			texts = append(texts, match+fmt.Sprintf("-m recent --update --seconds %d --reap %s", seconds(v), listOf(v, e, f))+dnat(e))
		}
	}
	for i, e := range endpoints {
		text := match
		if left := len(endpoints) - i; left > 1 {
			text += "-m statistic --mode random --probability " + oneIn(left) + " "
		}
		if v.Affinity > 0 {
			text += "-m recent --set " + listOf(v, e, f)
		}
		texts = append(texts, text+dnat(e))
	}
	return texts
}

func dnat(e vip.Endpoint) string { return "-j DNAT --to-destination " + e.AddrPort.String() }

// listOf names the list of clients that know an endpoint by this server. It
// lives as long as rules refer to it, so it dies with the endpoint (P-16).
func listOf(v *vip.VirtualServer, e vip.Endpoint, f *family) string {
	name := fmt.Sprintf("signpost-%s-%d-%s-%s-%d", v.Frontend.Addr, v.Frontend.Port, protocolName(v.Frontend.Protocol), e.AddrPort.Addr(), e.AddrPort.Port())
	return "--name " + name + " --mask " + f.mask + " --rsource "
}

func seconds(v *vip.VirtualServer) int { return max(1, int(v.Affinity.Seconds())) }

// oneIn is the probability 1/n as the kernel holds and iptables-save shows it:
// in 2^31ths.
func oneIn(n int) string {
	const whole = 1 << 31
	return fmt.Sprintf("%.11f", math.Round(whole/float64(n))/whole)
}

// markFor marks the connections that have to be masqueraded.
func markFor(v *vip.VirtualServer) []string {
	var sources sourceSet
	for _, s := range vip.Sources {
		if v.Routes[s].SNAT {
			sources |= 1 << s
		}
	}
	switch sources {
	case 0:
		return nil
	case everySource:
		return []string{mark}
	default:
		return []string{"-j " + sources.markChain()}
	}
}

// reject returns a virtual server's part of the filter table, where only what
// was not translated is left: no rules, a rule of its leaf, or that and chains.
func (c compiler) reject(v *vip.VirtualServer) ([]rule, []chain) {
	match := matchOf(v) + commentOf(v)
	kinds := map[string]bool{}
	for _, s := range vip.Sources {
		if verdict := onEmpty(v, s); verdict != "" {
			kinds[verdict] = true
		}
	}
	switch {
	case len(kinds) == 0 && !v.Restricted:
		return nil, nil
	case len(kinds) == 0 || len(kinds) == 1 && kinds[drop]:
		return ownedBy(v, []string{match + drop}), nil
	case len(kinds) == 1 && !v.Restricted:
		return ownedBy(v, []string{match + refuse}), nil
	}
	verdicts := ownChain("V", v, c.bySource(func(s vip.Source) string {
		if verdict := onEmpty(v, s); verdict != "" {
			return verdict
		}
		return back
	}))
	if !v.Restricted {
		return ownedBy(v, []string{match + "-g " + verdicts.name}), []chain{verdicts}
	}
	admitted := c.admit(v, "-g "+verdicts.name, drop)
	return ownedBy(v, []string{match + "-g " + admitted.name}), []chain{admitted, verdicts}
}

// onEmpty is what becomes of packets from a source that has no endpoint.
func onEmpty(v *vip.VirtualServer, s vip.Source) string {
	r := v.Routes[s]
	switch {
	case len(v.Endpoints(r.Set)) > 0:
		return ""
	case r.Empty == vip.Drop:
		return drop
	default:
		return refuse
	}
}

// bySource sends pods, this node and others their ways. A test whose way is
// that of all who are left is left out.
func (c compiler) bySource(way func(vip.Source) string) []string {
	pod, node, outside := way(vip.FromPod), way(vip.FromNode), way(vip.FromOutside)
	var texts []string
	if pod != node || node != outside {
		for _, test := range c.fromPod() {
			texts = append(texts, test+pod)
		}
	}
	if node != outside {
		texts = append(texts, "-m addrtype --src-type LOCAL "+node)
	}
	return append(texts, outside)
}

// fromPod returns the tests that tell pods from others (P-20): one has to match.
func (c compiler) fromPod() []string {
	var tests []string
	for _, p := range c.family.ownPrefixes(c.pods.CIDRs) {
		tests = append(tests, fromNetwork(p))
	}
	if c.pods.InterfacePrefix != "" {
		tests = append(tests, "-i "+interfaces(c.pods.InterfacePrefix)+" ")
	}
	return tests
}

// reachable reports whether packets from anywhere find an endpoint.
func reachable(v *vip.VirtualServer) bool {
	for _, r := range v.Routes {
		if len(v.Endpoints(r.Set)) > 0 {
			return true
		}
	}
	return false
}

// inline reports whether a server's rules stand in its leaf.
func inline(v *vip.VirtualServer) bool {
	return !v.Restricted && v.Affinity == 0 && oneSet(v) && len(v.Endpoints(v.Routes[0].Set)) <= inlineLimit
}

func oneSet(v *vip.VirtualServer) bool {
	return v.Routes[0].Set == v.Routes[1].Set && v.Routes[1].Set == v.Routes[2].Set
}

func setChain(s vip.Set) string {
	if s == vip.LocalSet {
		return "L"
	}
	return "C"
}
