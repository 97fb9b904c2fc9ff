package convert

import (
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// objectCase is a member of an object and how its problems start.
type objectCase struct {
	name, text string
	want       []string
}

func runObjectCases(t *testing.T, opts Options, kind, member string, cases []objectCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			obj := named(t, kind, "web-1", member, c.text)
			opts.Default(obj)
			expect(t, lines(opts.Validate(obj, nil)), c.want)
		})
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	runObjectCases(t, Options{}, "Endpoints", "subsets", []objectCase{
		{"hand-written", `- {addresses: [{ip: 172.16.0.1}], ports: [{port: 80}]}`, nil},
		{"P-09 old spellings", `- {addresses: [{ip: 010.0.0.1}, {ip: "::ffff:10.0.0.2"}, {ip: "2001:DB8:0::1"}]}`, nil},
		{"not ready only", `- {notReadyAddresses: [{ip: 172.16.0.1, hostname: db-0, nodeName: node-1}]}`, nil},
		{"no addresses", `- {ports: [{port: 80}]}`, []string{`subsets[0]: Required value: must specify`}},
		{"A-10 addresses of no use", `- {addresses: [{ip: 127.0.0.1}, {ip: 0.0.0.0}, {ip: 224.0.0.1}], notReadyAddresses: [{ip: "fe80::1"}, {ip: x}]}`, []string{
			`subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range`,
			`subsets[0].addresses[1].ip: Invalid value: "0.0.0.0": may not be unspecified`,
			`subsets[0].addresses[2].ip: Invalid value: "224.0.0.1": may not be a multicast`,
			`subsets[0].notReadyAddresses[0].ip: Invalid value: "fe80::1": may not be in the link-local`,
			`subsets[0].notReadyAddresses[1].ip: Invalid value: "x": must be a valid IP address`,
		}},
		{"B26 hostname with a dot", `- {addresses: [{ip: 172.16.0.1, hostname: a.b}]}`, []string{`subsets[0].addresses[0].hostname: Invalid value: "a.b": must not contain dots`}},
		{"a bad node name", `- {addresses: [{ip: 172.16.0.1, nodeName: a_b}]}`, []string{`subsets[0].addresses[0].nodeName: Invalid value: "a_b": `}},
		{"several ports need names", `- {addresses: [{ip: 172.16.0.1}], ports: [{port: 80}, {name: b, port: 81}]}`, []string{`subsets[0].ports[0].name: Required value`}},
		{"X10 bad ports", `- {addresses: [{ip: 172.16.0.1}], ports: [{name: a, port: 0}, {name: B, port: 65536, protocol: QUIC}]}`, []string{
			`subsets[0].ports[0].port: Invalid value: 0: `, `subsets[0].ports[1].name: Invalid value: "B": `,
			`subsets[0].ports[1].port: Invalid value: 65536: `, `subsets[0].ports[1].protocol: Unsupported value: "QUIC"`,
		}},
	})
}

func TestSliceEndpoints(t *testing.T) {
	t.Parallel()
	for _, c := range []objectCase{
		{"IPv4", "addressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: [172.16.0.1]}]", nil},
		{"IPv6, not canonical (H20)", "addressType: IPv6\nendpoints: [{addresses: ['2001:DB8:0:0::1']}]", nil},
		{"P-09 leading zeros", "addressType: IPv4\nendpoints: [{addresses: [010.0.0.1]}]", nil},
		{"FQDN (H19)", "addressType: FQDN\nendpoints: [{addresses: [www.example.com]}]", nil},
		{"FQDN of one label", "addressType: FQDN\nendpoints: [{addresses: [www]}]", []string{`endpoints[0].addresses[0]: Invalid value: "www": should be a domain`}},
		{"no type", "endpoints: [{addresses: [172.16.0.1]}]", []string{`addressType: Required value`}},
		{"unknown type", "addressType: IPv5\nendpoints: [{addresses: [172.16.0.1]}]", []string{`addressType: Unsupported value: "IPv5"`}},
		{"no address", "addressType: IPv4\nendpoints: [{}]", []string{`endpoints[0].addresses: Required value`}},
		{"X23 wrong family", "addressType: IPv4\nendpoints: [{addresses: ['fd00::1']}]", []string{`endpoints[0].addresses[0]: Invalid value: "fd00::1": must be an IPv4 address`}},
		{"A-10 addresses of no use", "addressType: IPv6\nendpoints: [{addresses: ['::1']}, {addresses: ['::']}, {addresses: ['fe80::1']}, {addresses: ['ff02::1']}, {addresses: [x]}]", []string{
			`endpoints[0].addresses[0]: Invalid value: "::1": may not be in the loopback`,
			`endpoints[1].addresses[0]: Invalid value: "::": may not be unspecified`,
			`endpoints[2].addresses[0]: Invalid value: "fe80::1": may not be in the link-local`,
			`endpoints[3].addresses[0]: Invalid value: "ff02::1": may not be a multicast`,
			`endpoints[4].addresses[0]: Invalid value: "x": must be a valid IP`,
		}},
		{"B26 hostname with a dot", "addressType: IPv4\nendpoints: [{addresses: [172.16.0.1], hostname: a.b, nodeName: c_d}]", []string{
			`endpoints[0].hostname: Invalid value: "a.b": must not contain dots`, `endpoints[0].nodeName: Invalid value: "c_d": `,
		}},
		{"hints", "addressType: IPv4\nendpoints: [{addresses: [172.16.0.1], hints: {forZones: [{name: a}, {name: a}, {name: ''}], forNodes: [{name: b_c}]}}]", []string{
			`endpoints[0].hints.forZones[1].name: Duplicate value: "a"`, `endpoints[0].hints.forZones[2].name: Required value`,
			`endpoints[0].hints.forNodes[0].name: Invalid value: "b_c": `,
		}},
		{"too many hints", "addressType: IPv4\nendpoints: [{addresses: [172.16.0.1], hints: {forZones: [" + strings.Repeat("{name: a},", 9) + "]}}]", []string{`endpoints[0].hints.forZones: Too many: 9: must have at most 8 items`}},
		{"X10 bad ports", "addressType: IPv4\nports: [{name: a, port: 65536}, {name: a, port: -1}, {name: b, protocol: QUIC}, {name: C}]\nendpoints: []", []string{
			`ports[0].port: Invalid value: 65536: `, `ports[1].name: Duplicate value: "a"`, `ports[1].port: Invalid value: -1: `,
			`ports[2].protocol: Unsupported value: "QUIC"`, `ports[3].name: Invalid value: "C": `,
		}},
		{"P-03 port 0 and none pass", "addressType: IPv4\nports: [{name: a, port: 0}, {name: b}]\nendpoints: []", nil},
		{"A-10 100 addresses", "addressType: IPv4\nendpoints: [{addresses: [" + strings.Repeat("172.16.0.1,", 100) + "]}]", nil},
		{"A-10 101 addresses", "addressType: IPv4\nendpoints: [{addresses: [" + strings.Repeat("172.16.0.1,", 101) + "]}]", []string{`endpoints[0].addresses: Too many: 101: `}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			obj := decode(t, "kind: EndpointSlice\nmetadata: {name: web-1, namespace: shop}\n"+c.text)
			Options{}.Default(obj)
			expect(t, lines(Options{}.Validate(obj, nil)), c.want)
		})
	}
}

func TestSliceLimits(t *testing.T) {
	t.Parallel()
	slice := func(endpoints, ports int) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
		s.Name = "web-1"
		for i := range endpoints {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250)}})
		}
		for i := range ports {
			name := fmt.Sprintf("p%d", i)
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name})
		}
		Options{}.Default(s)
		return s
	}
	expect(t, lines(Options{}.Validate(slice(1000, 100), nil)), nil)
	expect(t, lines(Options{}.Validate(slice(1001, 1), nil)), []string{`endpoints: Too many: 1001: must have at most 1000`})
	expect(t, lines(Options{}.Validate(slice(10_000, 1), nil)), []string{`endpoints: Too many: 10000: `})
	expect(t, lines(Options{}.Validate(slice(1, 101), nil)), []string{`ports: Too many: 101: must have at most 100`})
}

func TestSliceAddressTypeIsImmutable(t *testing.T) {
	t.Parallel()
	before, after := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}, &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv6}
	after.Name, after.Namespace = "web-1", "shop"
	expect(t, lines(Options{}.Validate(after, before)), []string{`addressType: Invalid value: "IPv6": field is immutable`})
}

func TestAllowLoopback(t *testing.T) {
	t.Parallel()
	opts := Options{AllowLoopback: true}
	for _, obj := range []string{
		"kind: Endpoints\nmetadata: {name: a}\nsubsets: [{addresses: [{ip: 127.1.0.1}, {ip: '::1'}]}]",
		"kind: EndpointSlice\nmetadata: {name: a}\naddressType: IPv4\nendpoints: [{addresses: [127.1.0.1]}]",
		"kind: Service\nmetadata: {name: a}\nspec: {clusterIP: 127.96.0.1, ports: [{port: 80}]}",
		"kind: Pod\nmetadata: {name: a}\nstatus: {podIP: 127.1.0.1}",
	} {
		o := decode(t, obj)
		opts.Default(o)
		expect(t, lines(opts.Validate(o, nil)), nil)
	}
}

func TestPods(t *testing.T) {
	t.Parallel()
	runObjectCases(t, Options{}, "Pod", "spec", []objectCase{
		{"nothing at all", `{}`, nil},
		{"no image, no name", `{containers: [{ports: [{containerPort: 80}]}]}`, nil},
		{"hostname and subdomain", `{hostname: db-0, subdomain: db, nodeName: node-1.example}`, nil},
		{"hostname with a dot", `{hostname: a.b, subdomain: C, nodeName: d_e}`, []string{
			`spec.nodeName: Invalid value: "d_e": `, `spec.hostname: Invalid value: "a.b": must not contain dots`, `spec.subdomain: Invalid value: "C": `,
		}},
		{"container ports", `{containers: [{name: a, ports: [{name: http, containerPort: 80}, {name: dns, containerPort: 53, protocol: UDP}]}]}`, nil},
		{"bad container ports", `{containers: [{name: A, ports: [{name: "80", containerPort: 0}, {name: a, containerPort: 65536}, {name: a, containerPort: 1, protocol: QUIC}]}]}`, []string{
			`spec.containers[0].name: Invalid value: "A": `,
			`spec.containers[0].ports[0].name: Invalid value: "80": must contain at least one letter`,
			`spec.containers[0].ports[0].containerPort: Required value`,
			`spec.containers[0].ports[1].containerPort: Invalid value: 65536: `,
			`spec.containers[0].ports[2].name: Duplicate value: "a"`,
			`spec.containers[0].ports[2].protocol: Unsupported value: "QUIC"`,
		}},
		{"two containers of one name", `{initContainers: [{name: a}], containers: [{name: a}]}`, []string{`spec.containers[0].name: Duplicate value: "a"`}},
		{"probes", `{containers: [{name: a, readinessProbe: {httpGet: {port: http}}}, {name: b, readinessProbe: {tcpSocket: {port: 80}}}, {name: c, readinessProbe: {grpc: {port: 80}}}, {name: d, readinessProbe: {exec: {command: [ls]}}}]}`, nil},
		{"a probe of no kind", `{containers: [{readinessProbe: {periodSeconds: -1, terminationGracePeriodSeconds: 1}}]}`, []string{
			`spec.containers[0].readinessProbe: Required value: must specify one of`,
			`spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0`,
			`spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Forbidden`,
		}},
		{"a probe of four kinds, all bad", `{containers: [{readinessProbe: {exec: {}, httpGet: {port: 0, scheme: FTP, httpHeaders: [{name: "a b", value: c}]}, tcpSocket: {port: "1"}, grpc: {port: 65536}}}]}`, []string{
			`spec.containers[0].readinessProbe.exec.command: Required value`,
			`spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: `,
			`spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: "FTP"`,
			`spec.containers[0].readinessProbe.httpGet.httpHeaders[0].name: Invalid value: "a b": `,
			`spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: "1": `,
			`spec.containers[0].readinessProbe.grpc.port: Invalid value: 65536: `,
			`spec.containers[0].readinessProbe: Forbidden: may specify only one kind of probe, not 4`,
		}},
	})
	runObjectCases(t, Options{}, "Pod", "status", []objectCase{
		{"dual stack", `{phase: Running, podIPs: [{ip: 172.16.0.1}, {ip: "fd00::1"}], conditions: [{type: Ready, status: "True"}]}`, nil},
		{"addresses that are none", `{podIPs: [{ip: 172.16.0.300}]}`, []string{`status.podIPs[0].ip: Invalid value: "172.16.0.300": must be a valid IP`}},
		{"leading zeros", `{podIP: 010.0.0.1}`, []string{`status.podIPs[0].ip: Invalid value: "010.0.0.1": must not have leading 0s`}},
		{"two of one family", `{podIPs: [{ip: 172.16.0.1}, {ip: 172.16.0.2}]}`, []string{`status.podIPs: Invalid value: ["172.16.0.1","172.16.0.2"]: may specify no more`}},
		{"unknown phase and status", `{phase: Happy, conditions: [{type: Ready, status: "yes"}, {status: "True"}]}`, []string{
			`status.phase: Unsupported value: "Happy"`, `status.conditions[0].status: Unsupported value: "yes"`, `status.conditions[1].type: Required value`,
		}},
	})
}

func TestNodesAndNamespaces(t *testing.T) {
	t.Parallel()
	for _, c := range []objectCase{
		{"a node", "kind: Node\nmetadata: {name: node-1.example}\nspec: {podCIDRs: [10.244.0.0/24, 'fd00::/64']}\nstatus: {addresses: [{type: InternalIP, address: 192.168.0.1}, {type: Hostname, address: node-1}]}", nil},
		{"a node in a namespace", "kind: Node\nmetadata: {name: a, namespace: b}", []string{`metadata.namespace: Forbidden`}},
		{"a node's bad name", "kind: Node\nmetadata: {name: A}", []string{`metadata.name: Invalid value: "A": `}},
		{"X10 CIDR of 33", "kind: Node\nmetadata: {name: a}\nspec: {podCIDR: 10.0.0.0/33}", []string{`spec.podCIDRs[0]: Invalid value: "10.0.0.0/33": must be a valid CIDR`}},
		{"two CIDRs of one family", "kind: Node\nmetadata: {name: a}\nspec: {podCIDRs: [10.0.0.0/24, 10.0.1.0/24]}", []string{`spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more`}},
		{"a node's bad addresses", "kind: Node\nmetadata: {name: a}\nstatus: {addresses: [{type: InternalIP, address: x}, {type: Hostname, address: host}, {type: Hostname, address: host}]}", []string{
			`status.addresses[0].address: Invalid value: "x": must be a valid IP`, `status.addresses[2]: Duplicate value: {"type":"Hostname","address":"host"}`,
		}},
		{"a namespace", "kind: Namespace\nmetadata: {name: shop}", nil},
		{"a namespace's bad name", "kind: Namespace\nmetadata: {name: a.b}", []string{`metadata.name: Invalid value: "a.b": must not contain dots`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			obj := decode(t, c.text)
			Options{}.Default(obj)
			expect(t, lines(Options{}.Validate(obj, nil)), c.want)
		})
	}
}
