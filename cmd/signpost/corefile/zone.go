package corefile

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"signpost/dnsserver"
)

// Address is what the key of a server block names: a zone on a port.
type Address struct {
	Transport dnsserver.Transport
	Zone      string // lower case, fully qualified: "cluster.local."
	Port      uint16
}

// String returns the key in CoreDNS's normal form: "dns://cluster.local.:53".
func (a Address) String() string { return fmt.Sprintf("%s://%s:%d", a.Transport, a.Zone, a.Port) }

// transports are those that a key may name, with their ports; 0 is the
// default of the command line.
var transports = map[string]struct {
	transport dnsserver.Transport
	port      uint16
}{
	"dns": {dnsserver.PlainDNS, 0}, "tls": {dnsserver.DoT, 853}, "https": {dnsserver.DoH, 443},
}

// parseKey reads a block's key: "[dns://|tls://|https://]ZONE[:PORT]", where
// ZONE is a name or a network, which stands for its reverse zones (R10). A port
// alone is for all names.
func parseKey(key string, defaultPort uint16) ([]Address, error) {
	rest, scheme := key, "dns"
	if before, after, found := strings.Cut(key, "://"); found {
		scheme, rest = strings.ToLower(before), after
	}
	t, known := transports[scheme]
	if !known {
		return nil, fmt.Errorf("transport %q: must be dns://, tls:// or https://", scheme)
	}
	if t.port != 0 {
		defaultPort = t.port
	}
	host, port, err := splitPort(rest, defaultPort)
	if err != nil {
		return nil, err
	}
	if host == "" && rest != "" {
		host = "."
	}
	zones, err := parseZone(host)
	if err != nil {
		return nil, err
	}
	addresses := make([]Address, len(zones))
	for i, z := range zones {
		addresses[i] = Address{Transport: t.transport, Zone: z, Port: port}
	}
	return addresses, nil
}

// splitPort takes ":PORT" off a key. The last colon of an IPv6 network is not
// followed by a number alone, for the prefix length stands there.
func splitPort(key string, defaultPort uint16) (string, uint16, error) {
	at := strings.LastIndexByte(key, ':')
	if at < 0 || strings.Contains(key[at:], "/") {
		return key, defaultPort, nil
	}
	port, err := strconv.ParseUint(key[at+1:], 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q: must be between 0 and 65535", key[at+1:])
	}
	return key[:at], uint16(port), nil
}

// parseZone reads a zone: a domain name, or a network for its reverse zones.
func parseZone(text string) ([]string, error) {
	if strings.Contains(text, "/") {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("network %q: must be ADDRESS/LENGTH", text)
		}
		return dnsserver.ReverseZones(network), nil
	}
	zone := strings.ToLower(strings.TrimSuffix(text, ".")) + "."
	if text == "" {
		return nil, fmt.Errorf("zone %q: must not be empty: the root is %q", text, ".")
	}
	if zone == "." {
		return []string{zone}, nil
	}
	return []string{zone}, checkName(zone)
}

// checkName applies the limits of RFC 1035 section 3.1 to a fully qualified name.
func checkName(zone string) error {
	if len(zone) > 254 {
		return fmt.Errorf("zone %q: must have at most 254 characters", zone)
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(zone, "."), ".") {
		if label == "" || len(label) > 63 {
			return fmt.Errorf("zone %q: label %q: must have 1 to 63 characters", zone, label)
		}
		if strings.ContainsFunc(label, notInName) {
			return fmt.Errorf("zone %q: label %q: must be letters, digits, '-' and '_'", zone, label)
		}
	}
	return nil
}

func notInName(r rune) bool {
	isLetter := r >= 'a' && r <= 'z'
	isDigit := r >= '0' && r <= '9'
	return !isLetter && !isDigit && r != '-' && r != '_'
}
