package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"strings"

	"signpost/vip"
)

// matchOf matches packets to the frontend; those to node ports come by the
// node's addresses only.
func matchOf(v *vip.VirtualServer) string {
	protocol := protocolName(v.Frontend.Protocol)
	port := fmt.Sprintf("-p %s -m %s --dport %d ", protocol, protocol, v.Frontend.Port)
	if v.Frontend.IsNodePort() {
		return port
	}
	return "-d " + host(v.Frontend.Addr) + " " + port
}

// fromProtocol is the match that DNAT to a port insists on.
func fromProtocol(v *vip.VirtualServer) string {
	return "-p " + protocolName(v.Frontend.Protocol) + " "
}

func fromNetwork(p netip.Prefix) string {
	if p.Bits() == 0 {
		return ""
	}
	return "-s " + p.String() + " "
}

// interfaces matches the names that begin with the prefix; one as long as a
// name can be is the name itself.
func interfaces(prefix string) string {
	const longest = 15
	if len(prefix) >= longest {
		return prefix
	}
	return prefix + "+"
}

// commentOf names the owner, if nothing in the name could be taken for
// anything else (X10).
func commentOf(v *vip.VirtualServer) string {
	text := v.Owner.String()
	if v.PortName != "" {
		text += ":" + v.PortName
	}
	const longest = 250
	if len(text) > longest || strings.ContainsFunc(text, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-./:", r)
	}) {
		return ""
	}
	return `-m comment --comment "` + text + `" `
}

// chainName is the name of one of a server's own chains: at most 28 characters,
// and the same in every process.
func chainName(letter string, f vip.Frontend) string {
	sum := sha256.Sum256([]byte(f.String()))
	const length = 16
	return prefix + letter + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:length]
}

func ownChain(letter string, v *vip.VirtualServer, texts []string) chain {
	return chain{chainName(letter, v.Frontend), ownedBy(v, texts)}
}

func ownedBy(v *vip.VirtualServer, texts []string) []rule {
	rules := make([]rule, len(texts))
	for i, text := range texts {
		rules[i] = rule{text, v.Frontend}
	}
	return rules
}
