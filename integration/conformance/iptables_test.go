package conformance_test

import (
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"signpost/integration/conformance"
	"signpost/vip"
	"signpost/vip/iptables"
)

func TestIptablesNft(t *testing.T)    { testIptables(t, "nft") }
func TestIptablesLegacy(t *testing.T) { testIptables(t, "legacy") }

func testIptables(t *testing.T, variant string) {
	conformance.Run(t, conformance.Suite{
		New: func(conformance.Host) vip.Backend {
			return iptables.New(iptables.Config{Log: slog.New(slog.DiscardHandler), Variant: variant})
		},
		Dump: func() (string, error) { return dumpIptables(variant) },
	})
}

// dumpIptables lists the chains of both families, each with its rules in order.
func dumpIptables(variant string) (string, error) {
	var lines []string
	for _, command := range []string{"iptables-" + variant + "-save", "ip6tables-" + variant + "-save"} {
		for _, table := range []string{"filter", "nat"} {
			out, err := exec.Command(command, "-t", table).Output()
			if err != nil {
				return "", fmt.Errorf("running %s: %w", command, err)
			}
			lines = append(lines, chainsOf(command+" "+table, string(out))...)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

func chainsOf(place, text string) []string {
	chains := map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, ":SIGNPOST-"):
			chains[fields[0][1:]] += ""
		case strings.HasPrefix(line, "-A "):
			chains[fields[1]] += line
		}
	}
	var list []string
	for name, rules := range chains {
		list = append(list, place+" "+name+"\n"+rules)
	}
	return list
}
