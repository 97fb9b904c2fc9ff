package convert

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"

	"signpost/discovery"
)

func TestSlice(t *testing.T) {
	t.Parallel()
	ready := func(addr string) discovery.Endpoint {
		return discovery.Endpoint{Addr: addrs(addr)[0], Ready: true, Serving: true}
	}
	for _, c := range []struct {
		name, text string
		want       *discovery.Slice
		warnings   []string
	}{
		{
			"every field", `
addressType: IPv4
ports: [{name: http, port: 8080}, {name: dns, port: 53, protocol: UDP}]
endpoints:
- addresses: [172.16.0.1, 172.16.0.2]
  hostname: db-0
  nodeName: node-1
  zone: a
  hints: {forZones: [{name: a}, {name: b}], forNodes: [{name: node-1}]}
  targetRef: {kind: Pod, name: db-0, uid: u-1}`,
			&discovery.Slice{
				Ports: []discovery.EndpointPort{{Name: "http", Port: 8080}, {Name: "dns", Protocol: discovery.UDP, Port: 53}},
				Endpoints: []discovery.Endpoint{{
					Addr: addrs("172.16.0.1")[0], Hostname: "db-0", Node: "node-1", Zone: "a",
					ForZones: []string{"a", "b"}, ForNodes: []string{"node-1"}, Ready: true, Serving: true,
					Target: discovery.TargetRef{Kind: "Pod", Namespace: "shop", Name: "db-0", UID: "u-1"},
				}},
			},
			nil,
		},
		{"empty", `addressType: IPv6`, &discovery.Slice{}, nil},
		{"H19 FQDN", `{addressType: FQDN, endpoints: [{addresses: [a.b]}]}`, nil, []string{`addressType: Invalid value: "FQDN"`}},
		{"X10 no type", `endpoints: [{addresses: [172.16.0.1]}]`, nil, []string{`addressType: Invalid value: ""`}},
		{
			"H20, P-09 canonical addresses", `
addressType: IPv6
endpoints: [{addresses: ["FD00:0:0::0001"]}]`,
			&discovery.Slice{Endpoints: []discovery.Endpoint{ready("fd00::1")}}, nil,
		},
		{
			"P-09 leading zeros and IPv4-mapped", `
addressType: IPv4
endpoints: [{addresses: ["010.00.0.01"]}, {addresses: ["::ffff:10.0.0.2"]}]`,
			&discovery.Slice{Endpoints: []discovery.Endpoint{ready("10.0.0.1"), ready("10.0.0.2")}}, nil,
		},
		{
			"X10, X23 unusable addresses", `
addressType: IPv4
endpoints: [{}, {addresses: [x]}, {addresses: ["fd00::1"]}, {addresses: [172.16.0.1]}]`,
			&discovery.Slice{Endpoints: []discovery.Endpoint{ready("172.16.0.1")}},
			[]string{
				`endpoints[0].addresses: Invalid value: null: must contain at least one`, `endpoints[1].addresses[0]: Invalid value: "x": must be an IPv4 address`,
				`endpoints[2].addresses[0]: Invalid value: "fd00::1": must be an IPv4`,
			},
		},
		{
			"no zones in addresses", `{addressType: IPv6, endpoints: [{addresses: ["fe80::1%eth0"]}]}`,
			&discovery.Slice{Endpoints: []discovery.Endpoint{}},
			[]string{`endpoints[0].addresses[0]: Invalid value: "fe80::1%eth0"`},
		},
		{
			"P-03 ports", `
addressType: IPv4
ports: [{port: 80}, {name: a}, {name: b, port: 0}, {name: c, port: 81, protocol: QUIC}, {name: d, port: 65536}]`,
			&discovery.Slice{Ports: []discovery.EndpointPort{{Port: 80}}},
			[]string{
				`ports[1].port: Invalid value: null: must be between`, `ports[2].port: Invalid value: 0: `,
				`ports[3].protocol: Invalid value: "QUIC"`, `ports[4].port: Invalid value: 65536: `,
			},
		},
		{
			"P-06 conditions", `
addressType: IPv4
endpoints:
- {addresses: [10.0.0.1], conditions: {}}
- {addresses: [10.0.0.2], conditions: {ready: false}}
- {addresses: [10.0.0.3], conditions: {ready: false, terminating: true}}
- {addresses: [10.0.0.4], conditions: {ready: true, serving: false, terminating: false}}`,
			&discovery.Slice{Endpoints: []discovery.Endpoint{
				{Addr: addrs("10.0.0.1")[0], Ready: true, Serving: true},
				{Addr: addrs("10.0.0.2")[0]},
				{Addr: addrs("10.0.0.3")[0], Serving: true, Terminating: true},
				{Addr: addrs("10.0.0.4")[0], Ready: true},
			}}, nil,
		},
		{
			"B26 hostname with a dot", `{addressType: IPv4, endpoints: [{addresses: [10.0.0.1], hostname: a.b}]}`,
			&discovery.Slice{Endpoints: []discovery.Endpoint{ready("10.0.0.1")}},
			[]string{`endpoints[0].hostname: Invalid value: "a.b": must be a single DNS label`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := decode(t, "kind: EndpointSlice\nmetadata: {name: web-1, namespace: shop}\n").(*discoveryv1.EndpointSlice)
			merge(t, s, c.text)
			got, warnings := Slice(s)
			expect(t, warnings, c.warnings)
			if c.want != nil {
				c.want.Name = "web-1"
			}
			if diff := cmp.Diff(c.want, got, compareAddrs); diff != "" {
				t.Errorf("model (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSliceTrigger(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"2026-01-02T03:04:05.000000006Z": time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		"":                               {},
		"yesterday":                      {},
	} {
		s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
		s.Annotations = map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": text}
		got, warnings := Slice(s)
		if !got.Trigger.Equal(want) {
			t.Errorf("trigger %q: got %v, want %v", text, got.Trigger, want)
		}
		if text == "yesterday" {
			expect(t, warnings, []string{`metadata.annotations[endpoints.kubernetes.io/last-change-trigger-time]: Invalid value: "yesterday"`})
		}
	}
}
