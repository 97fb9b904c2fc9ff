package conformance_test

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"signpost/integration/conformance"
	"signpost/vip"
	"signpost/vip/ipvs"
	"signpost/vip/viptest"
)

// TestIPVS needs a kernel with IPVS; "make integration-ipvs" runs it in a guest
// that has one, with REQUIRE_IPVS set.
func TestIPVS(t *testing.T) {
	viptest.NeedRoot(t)
	backend := ipvs.New(ipvs.Config{})
	if err := backend.Probe(t.Context()); err != nil {
		if os.Getenv("REQUIRE_IPVS") != "" {
			t.Fatal(err)
		}
		t.Skipf("%v; make integration-ipvs runs it in a kernel that has it", err)
	}
	conformance.Run(t, conformance.Suite{
		New:    func(conformance.Host) vip.Backend { return ipvs.New(ipvs.Config{Log: slog.New(slog.DiscardHandler)}) },
		Dump:   dumpIPVS,
		Writes: nftablesGeneration,
		// The kernel keeps what it remembers of a client for as long as a
		// connection of the client is remembered, two minutes and more (F-10).
		// It finds the connection that an answer belongs to by its two ends. And
		// cluster addresses are this node's, so are routed as if by loopback.
		Limits:    conformance.Limits{AffinityLingers: true, NewestOnly: true, TooLarge: true},
		Breakages: breakagesOfIPVS(),
	})
}

// breakagesOfIPVS is what others may do (X02, X03).
func breakagesOfIPVS() []conformance.Breakage {
	var list []conformance.Breakage
	for _, line := range []string{
		"ipvsadm -C",
		"ipvsadm -D -t 10.96.0.7:80",
		"ipvsadm -e -t 10.96.0.7:80 -r 172.16.0.1:8080 -m -w 5",
		"ipvsadm -d -t 192.168.6.1:30080 -r 172.16.0.2:8080",
		"ip link del " + ipvs.Device,
		"ip addr del 10.96.0.7/32 dev " + ipvs.Device,
		"ip rule del priority 84",
		"ip -6 route flush table 84",
		"nft flush ruleset",
		"nft flush map inet signpost-ipvs ip4-from-pod",
		"nft flush chain inet signpost-ipvs nat-postrouting",
	} {
		// The kernel ends connections whose IPVS server is deleted.
		cuts := line == "ipvsadm -C" || strings.HasPrefix(line, "ipvsadm -D")
		list = append(list, conformance.Breakage{Name: line, Cuts: cuts, Do: func() error {
			words := strings.Fields(line)
			out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %w: %s", line, err, out)
			}
			return nil
		}})
	}
	return list
}

// dumpIPVS lists the virtual servers with their endpoints, the bound addresses
// and the table. Marks are numbers given out in the order of need.
func dumpIPVS() (string, error) {
	rules, err := dumpNftables()
	if err != nil {
		return "", err
	}
	lines := strings.Split(rules, "\n")
	for _, command := range [][]string{
		{"ipvsadm", "-Sn"}, {"ip", "-o", "addr", "show"}, {"ip", "rule"}, {"ip", "-6", "rule"},
	} {
		out, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			return "", fmt.Errorf("%s: %w", strings.Join(command, " "), err)
		}
		for line := range strings.Lines(string(out)) {
			if strings.HasSuffix(line, " -w 0\n") {
				continue // an endpoint that has left, with its last connections
			}
			_, own, ours := strings.Cut(line, ipvs.Device)
			if command[1] != "-o" {
				lines = append(lines, command[0]+" "+strings.TrimSpace(line))
			} else if ours { // without the device's number
				lines = append(lines, "address "+strings.TrimSpace(own))
			}
		}
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "ipvsadm ") && strings.Contains(line, " -f ") || strings.Contains(line, "-marks: ") {
			lines[i] = "(a mark)"
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}
