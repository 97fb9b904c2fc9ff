package iptables

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/sysctl"
)

// check refuses virtual servers that can't be said in a payload (P-25, X10).
func check(v *vip.VirtualServer) error {
	if err := checkAddr(v.Frontend.Addr, v.Frontend.Is6()); err != nil {
		return fmt.Errorf("checking the frontend: %w", err)
	}
	if v.Frontend.Protocol > discovery.SCTP {
		return fmt.Errorf("checking the frontend: protocol %d is none of TCP, UDP and SCTP", v.Frontend.Protocol)
	}
	for _, endpoints := range [][]vip.Endpoint{v.Cluster, v.Local} {
		for _, e := range endpoints {
			if err := checkAddr(e.AddrPort.Addr(), v.Frontend.Is6()); err != nil {
				return fmt.Errorf("checking endpoint %q: %w", e.AddrPort, err)
			}
		}
	}
	return nil
}

func checkAddr(a netip.Addr, v6 bool) error {
	switch {
	case !a.IsValid():
		return errors.New("it has no address")
	case a.Zone() != "" || a.Is4In6():
		return fmt.Errorf("address %q is not a plain one", a)
	case a.Is6() != v6:
		return fmt.Errorf("address %q is of the other family", a)
	}
	return nil
}

// checkNode refuses a node whose settings can't be said in a payload.
func checkNode(node *vip.Node) error {
	name := node.Detector.InterfacePrefix
	const longest = 15
	if len(name) > longest || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"'\/!+`, r)
	}) || strings.HasPrefix(name, "-") {
		return fmt.Errorf("checking the interface prefix of pods: %q is none", name)
	}
	return nil
}

// sctpSetting is a kernel setting by which a feature shows.
const sctpSetting = "/proc/sys/net/netfilter/nf_conntrack_sctp_timeout_established"

func readSettings() settings {
	return settings{liberal: sysctl.LiberalConntrack()}
}

// lacks says why kinds of virtual servers can't be had; nil: they can.
type lacks struct{ affinity, sctp error }

func (l lacks) of(v *vip.VirtualServer) error {
	switch {
	case v.Affinity > 0 && l.affinity != nil:
		return l.affinity
	case v.Frontend.Protocol == discovery.SCTP:
		return l.sctp
	}
	return nil
}
