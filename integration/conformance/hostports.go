package conformance

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// hostPorts is B24: somebody gives port 80 of all addresses of the node to a
// pod, as the host-port plugin of a pod network does it. The services' port 80
// stays theirs, and the node's is that pod's.
func (r *runner) hostPorts(t *testing.T) {
	d := r.fresh(t)
	f := feature{
		world: "service a/web ips=10.96.0.7 ports=80/P" + threeEndpoints,
		packets: `
		p3      10.96.0.7:80/P    p1 p2 q1
		p1      10.96.0.7:80/P    p1 p2 q1
		n1      10.96.0.7:80/P    p1 p2 q1 +snat
		outside 10.96.0.7:80/P    p1 p2 q1 +snat
		p3      10.96.0.7:81/P    refused
		outside 192.168.6.1:80/P  p4`,
	}
	if r.suite.Limits.HostPorts {
		f.packets = "outside 192.168.6.1:80/P  p4"
	}
	want := mustState(t, f)
	for _, first := range []string{"the host port", "the service"} {
		if first == "the service" {
			d.apply(t, nil, want)
		}
		remove := r.makeHostPort(t)
		if first == "the host port" {
			d.apply(t, nil, want)
		}
		r.check(t, "B24 "+first+" was first", mustProbes(t, r, f))
		remove()
		d.cleanup(t)
	}
}

// hostPortRules is what a plugin would make.
const hostPortRules = `
	fib daddr type local meta nfproto ipv4 meta l4proto { tcp, udp, sctp } th dport 80 dnat ip to 172.16.0.4:8080
	fib daddr type local meta nfproto ipv6 meta l4proto { tcp, udp, sctp } th dport 80 dnat ip6 to [fd00:16::4]:8080
`

// makeHostPort makes the plugin's rules and returns what removes them.
func (r *runner) makeHostPort(t *testing.T) (remove func()) {
	t.Helper()
	nft := func(script string) {
		err := r.site.lab.RunIn(node, func() error {
			command := exec.CommandContext(t.Context(), "nft", "-f", "-")
			command.Stdin = strings.NewReader(script)
			if out, err := command.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("running nft: %v", err)
		}
	}
	nft(`table inet host-ports {
		chain prerouting { type nat hook prerouting priority dstnat;` + hostPortRules + `}
		chain output { type nat hook output priority -100;` + hostPortRules + `}
	}`)
	return func() { nft("delete table inet host-ports") }
}
