package discovery

import (
	"fmt"
	"strings"
)

// Protocol is a transport protocol that a Service port can use.
type Protocol uint8

// The protocols that Kubernetes knows for Service ports. The zero value is
// TCP, as the API server's default is.
const (
	TCP Protocol = iota
	UDP
	SCTP
)

var protocolNames = [...]string{TCP: "TCP", UDP: "UDP", SCTP: "SCTP"}

// String returns the protocol as the Kubernetes API spells it: "TCP".
func (p Protocol) String() string {
	if int(p) < len(protocolNames) {
		return protocolNames[p]
	}
	return fmt.Sprintf("Protocol(%d)", uint8(p))
}

// ParseProtocol reads a protocol name in any letter case. An empty name is
// TCP (the default of the API; vip-requirements P-03).
func ParseProtocol(name string) (Protocol, error) {
	if name == "" {
		return TCP, nil
	}
	for p, n := range protocolNames {
		if strings.EqualFold(n, name) {
			return Protocol(p), nil
		}
	}
	return 0, fmt.Errorf("parsing protocol %q: must be one of TCP, UDP, SCTP", name)
}
