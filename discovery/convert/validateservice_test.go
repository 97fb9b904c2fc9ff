package convert

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// serviceCase is a Service's spec and how its problems start; none for a good one.
type serviceCase struct {
	name string
	spec string
	want []string
}

func runServiceCases(t *testing.T, opts Options, cases []serviceCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			svc := service(t, c.spec)
			opts.Default(svc)
			expect(t, lines(opts.Validate(svc, nil)), c.want)
		})
	}
}

func TestServicePorts(t *testing.T) {
	t.Parallel()
	runServiceCases(t, Options{}, []serviceCase{
		{"A-10 one port without a name", `ports: [{port: 80}]`, nil},
		{"A-10 edges of the range", `ports: [{name: a, port: 1}, {name: b, port: 65535}]`, nil},
		{"A-10 no ports", `selector: {a: b}`, []string{`spec.ports: Required value`}},
		{"A-10 no ports, headless", `clusterIP: None`, nil},
		{"X10 port 0", `ports: [{port: 0}]`, []string{`spec.ports[0].port: Invalid value: 0: must be between 1 and 65535`}},
		{"X10 port 65536", `ports: [{port: 65536}]`, []string{`spec.ports[0].port: Invalid value: 65536: `}},
		{"X10 negative port", `ports: [{port: -1, targetPort: 80}]`, []string{`spec.ports[0].port: Invalid value: -1: `}},
		{
			"A-10 several ports need names", `ports: [{port: 80}, {port: 443}]`,
			[]string{`spec.ports[0].name: Required value`, `spec.ports[1].name: Required value`},
		},
		{"A-10 name is a label", `ports: [{name: Web_1, port: 80}]`, []string{`spec.ports[0].name: Invalid value: "Web_1": `}},
		{"A-10 name of 63", `ports: [{name: ` + strings.Repeat("a", 63) + `, port: 80}]`, nil},
		{"A-10 name of 64", `ports: [{name: ` + strings.Repeat("a", 64) + `, port: 80}]`, []string{`spec.ports[0].name: Invalid value: `}},
		{
			"A-10 names are unique", `ports: [{name: a, port: 80}, {name: a, port: 81}]`,
			[]string{`spec.ports[1].name: Duplicate value: "a"`},
		},
		{
			"A-10 port and protocol are unique", `ports: [{name: a, port: 80}, {name: b, port: 80}]`,
			[]string{`spec.ports[1]: Duplicate value: "80/TCP"`},
		},
		{"A-10 one port, two protocols", `ports: [{name: a, port: 53}, {name: b, port: 53, protocol: UDP}]`, nil},
		{
			"X10 unknown protocol", `ports: [{port: 80, protocol: QUIC}]`,
			[]string{`spec.ports[0].protocol: Unsupported value: "QUIC": supported values: "TCP", "UDP", "SCTP"`},
		},
		{"A-10 SCTP", `ports: [{port: 80, protocol: SCTP}]`, nil},
		{"A-10 target by name", `ports: [{port: 80, targetPort: http-alt}]`, nil},
		{
			"A-10 target name of 16", `ports: [{port: 80, targetPort: abcdefghijklmnop}]`,
			[]string{`spec.ports[0].targetPort: Invalid value: "abcdefghijklmnop": must be no more than 15`},
		},
		{"A-10 target name without a letter", `ports: [{port: 80, targetPort: "8080"}]`, []string{`spec.ports[0].targetPort: Invalid value: "8080": must contain at least one letter`}},
		{"A-10 target out of range", `ports: [{port: 80, targetPort: 70000}]`, []string{`spec.ports[0].targetPort: Invalid value: 70000: `}},
		{"A-10 application protocol", `ports: [{port: 80, appProtocol: kubernetes.io/h2c}]`, nil},
		{"A-10 bad application protocol", `ports: [{port: 80, appProtocol: "a b"}]`, []string{`spec.ports[0].appProtocol: Invalid value: "a b": `}},
		{
			"A-05 node port of a ClusterIP service", `ports: [{port: 80, nodePort: 30080}]`,
			[]string{"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"},
		},
		{"A-05 node port outside the range is the allocator's", `{type: NodePort, ports: [{port: 80, nodePort: 8080}]}`, nil},
		{"X10 node port that is no port", `{type: NodePort, ports: [{port: 80, nodePort: 70000}]}`, []string{`spec.ports[0].nodePort: Invalid value: 70000: `}},
		{"A-06 one node port, two protocols", `
type: NodePort
ports: [{name: a, port: 53, nodePort: 30053}, {name: b, port: 53, protocol: UDP, nodePort: 30053}]`, nil},
		{"A-06 one node port, one protocol", `
type: NodePort
ports: [{name: a, port: 53, nodePort: 30053}, {name: b, port: 54, nodePort: 30053}]`, []string{`spec.ports[1].nodePort: Duplicate value: 30053`}},
		{"the kubelet's port on a load balancer", `{type: LoadBalancer, ports: [{port: 10250}]}`, []string{`spec.ports[0].port: Invalid value: 10250: `}},
		{"A-10 every problem, not only the first", `
type: Cluster
ports: [{port: 0, protocol: X}, {port: 80, targetPort: "-"}]`, []string{
			`spec.type: Unsupported value: "Cluster"`,
			`spec.ports[0].port: Invalid value: 0`, `spec.ports[0].protocol: Unsupported value: "X"`,
			`spec.ports[0].name: Required value`,
			`spec.ports[1].targetPort: Invalid value: "-": must contain at least one letter`,
			`spec.ports[1].targetPort: Invalid value: "-": must not begin or end with a hyphen`,
			`spec.ports[1].name: Required value`,
			`spec.internalTrafficPolicy: Required value`,
		}},
	})
}

func TestServiceClusterIPs(t *testing.T) {
	t.Parallel()
	runServiceCases(t, dualStack, []serviceCase{
		{"A-03 a free choice", `{clusterIP: 10.96.0.10, ports: [{port: 80}]}`, nil},
		{"A-03 range is the allocator's", `{clusterIP: 192.0.2.7, ports: [{port: 80}]}`, nil},
		{"loopback is the range's business", `{clusterIP: 127.96.0.10, ports: [{port: 80}]}`, nil},
		{
			"X10 octet of 300", `{clusterIP: 10.96.0.300, ports: [{port: 80}]}`,
			[]string{`spec.clusterIPs[0]: Invalid value: "10.96.0.300": must be a valid IP address`},
		},
		{"X10 leading zeros", `{clusterIP: 010.1.1.1, ports: [{port: 80}]}`, []string{`spec.clusterIPs[0]: Invalid value: "010.1.1.1": must not have leading 0s`}},
		{"X10 IPv4-mapped", `{clusterIP: "::ffff:10.0.0.1", ports: [{port: 80}]}`, []string{`spec.clusterIPs[0]: Invalid value: "::ffff:10.0.0.1": must not be an IPv4-mapped`}},
		{"X10 blank", `{clusterIP: " 10.0.0.1", ports: [{port: 80}]}`, []string{`spec.clusterIPs[0]: Invalid value: " 10.0.0.1": `}},
		{"A-03 clusterIP is clusterIPs[0]", `{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.2], ports: [{port: 80}]}`, []string{`spec.clusterIPs: Invalid value: ["10.0.0.2"]: first value must match`}},
		{"dual stack", `{ipFamilyPolicy: RequireDualStack, clusterIPs: [10.0.0.1, "fd00::1"], ports: [{port: 80}]}`, nil},
		{"dual stack, IPv6 first", `{ipFamilyPolicy: PreferDualStack, clusterIPs: ["fd00::1", 10.0.0.1], ports: [{port: 80}]}`, nil},
		{
			"two addresses, no policy", `{clusterIPs: [10.0.0.1, "fd00::1"], ports: [{port: 80}]}`,
			[]string{`spec.ipFamilyPolicy: Invalid value: "SingleStack": must be RequireDualStack or PreferDualStack when multiple ` + "`clusterIPs`"},
		},
		{"two families, no policy", `{ipFamilies: [IPv4, IPv6], ports: [{port: 80}]}`, []string{`spec.ipFamilyPolicy: Invalid value: "SingleStack": `}},
		{"two of one family", `{ipFamilyPolicy: PreferDualStack, clusterIPs: [10.0.0.1, 10.0.0.2], ports: [{port: 80}]}`, []string{
			`spec.ipFamilies[1]: Duplicate value: "IPv4"`,
			`spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: may specify no more than one IP for each IP family`,
		}},
		{"three addresses", `{ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv4, IPv6], clusterIPs: [10.0.0.1, "fd00::1", x], ports: [{port: 80}]}`, []string{
			`spec.clusterIPs: Invalid value: ["10.0.0.1","fd00::1","x"]: may only hold up to 2 values`, `spec.clusterIPs[2]: Invalid value: "x"`,
		}},
		{"family and address differ", `{ipFamilies: [IPv6], clusterIP: 10.0.0.1, ports: [{port: 80}]}`, []string{`spec.clusterIPs[0]: Invalid value: "10.0.0.1": must be an IPv6 address`}},
		{"unknown family", `{ipFamilies: [IPv5], ports: [{port: 80}]}`, []string{`spec.ipFamilies[0]: Unsupported value: "IPv5"`}},
		{"unknown policy", `{ipFamilyPolicy: Both, ports: [{port: 80}]}`, []string{`spec.ipFamilyPolicy: Unsupported value: "Both"`}},
		{"headless", `{clusterIP: None, selector: {a: b}, ports: [{port: 80}]}`, nil},
		{"None is no second address", `{ipFamilyPolicy: PreferDualStack, clusterIPs: [10.0.0.1, None], ports: [{port: 80}]}`, []string{`spec.clusterIPs[1]: Invalid value: "None": `}},
		{"None stands alone", `{ipFamilyPolicy: PreferDualStack, clusterIPs: [None, 10.0.0.1], ports: [{port: 80}]}`, []string{`spec.clusterIPs: Invalid value: ["None","10.0.0.1"]: may not hold`}},
		{"headless NodePort", `{type: NodePort, clusterIP: None, ports: [{port: 80}]}`, []string{`spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services`}},
		{"headless LoadBalancer", `{type: LoadBalancer, clusterIP: None, ports: [{port: 80}]}`, []string{`spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for LoadBalancer`}},
	})
}

func TestServiceFamiliesOfASingleStackCluster(t *testing.T) {
	t.Parallel()
	runServiceCases(t, Options{}, []serviceCase{
		{"IPv6 address", `{clusterIP: "fd00::1", ports: [{port: 80}]}`, []string{`spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`}},
		{"preferred dual stack is single", `{ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]}`, nil},
		{"required dual stack", `{ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}`, []string{`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured`}},
		{"headless without selector has any", `{clusterIP: None, ipFamilies: [IPv6], ports: [{port: 80}]}`, nil},
		{"headless with selector has not", `{clusterIP: None, selector: {a: b}, ipFamilies: [IPv6]}`, []string{`spec.ipFamilies[0]: Invalid value: "IPv6": not configured`}},
	})
}

func TestServiceTraffic(t *testing.T) {
	t.Parallel()
	const p = `ports: [{port: 80}]`
	runServiceCases(t, Options{}, []serviceCase{
		{"P-16 timeout of a day", `{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86400}}, ` + p + `}`, nil},
		{"A-10 timeout over a day", `{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}, ` + p + `}`, []string{`spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and at most 86400`}},
		{"X10 timeout 0", `{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}, ` + p + `}`, []string{`spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: `}},
		{"X10 empty affinity config", `{sessionAffinity: ClientIP, sessionAffinityConfig: {}, ` + p + `}`, nil},
		{"unknown affinity", `{sessionAffinity: Cookie, ` + p + `}`, []string{`spec.sessionAffinity: Unsupported value: "Cookie"`}},
		{"A-10 external address", `{externalIPs: [192.0.2.1, "2001:db8::1"], ` + p + `}`, nil},
		{"A-10 external addresses of no use", `{externalIPs: [0.0.0.0, 127.0.0.1, 169.254.1.1, 224.0.0.1, "::1", "fe80::1", "ff02::1", x], ` + p + `}`, []string{
			`spec.externalIPs[0]: Invalid value: "0.0.0.0": may not be unspecified`,
			`spec.externalIPs[1]: Invalid value: "127.0.0.1": may not be in the loopback range`,
			`spec.externalIPs[2]: Invalid value: "169.254.1.1": may not be in the link-local range`,
			`spec.externalIPs[3]: Invalid value: "224.0.0.1": may not be a multicast address`,
			`spec.externalIPs[4]: Invalid value: "::1": may not be in the loopback range`,
			`spec.externalIPs[5]: Invalid value: "fe80::1": may not be in the link-local range`,
			`spec.externalIPs[6]: Invalid value: "ff02::1": may not be a multicast address`,
			`spec.externalIPs[7]: Invalid value: "x": must be a valid IP address`,
		}},
		{"A-10 internal policy", `{internalTrafficPolicy: Local, ` + p + `}`, nil},
		{"A-10 unknown internal policy", `{internalTrafficPolicy: Zone, ` + p + `}`, []string{`spec.internalTrafficPolicy: Unsupported value: "Zone"`}},
		{"A-10 external policy of a ClusterIP service", `{externalTrafficPolicy: Local, ` + p + `}`, []string{`spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services`}},
		{"A-10 external policy with external addresses", `{externalTrafficPolicy: Local, externalIPs: [192.0.2.1], ` + p + `}`, nil},
		{"A-10 unknown external policy", `{type: NodePort, externalTrafficPolicy: Zone, ` + p + `}`, []string{`spec.externalTrafficPolicy: Unsupported value: "Zone"`}},
		{"A-10 distribution", `{trafficDistribution: PreferSameNode, ` + p + `}`, nil},
		{"A-10 unknown distribution", `{trafficDistribution: PreferFar, ` + p + `}`, []string{`spec.trafficDistribution: Unsupported value: "PreferFar"`}},
		{"A-10 selector", `{selector: {"a b": c, d: "e f"}, ` + p + `}`, []string{`spec.selector: Invalid value: "a b": `, `spec.selector: Invalid value: "e f": `}},
		{"A-07 health-check port", `{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 32000, ` + p + `}`, nil},
		{"A-07 health-check port with policy Cluster", `{type: LoadBalancer, healthCheckNodePort: 32000, ` + p + `}`, []string{"spec.healthCheckNodePort: Invalid value: 32000: may only be set when `type` is 'LoadBalancer'"}},
		{"A-07 health-check port that is none", `{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 70000, ` + p + `}`, []string{`spec.healthCheckNodePort: Invalid value: 70000: `}},
		{"A-10 source ranges", `{type: LoadBalancer, loadBalancerSourceRanges: ["10.0.0.0/8", " 2001:db8::/32 "], ` + p + `}`, nil},
		{"A-10 source ranges of a ClusterIP service", `{loadBalancerSourceRanges: ["10.0.0.0/8"], ` + p + `}`, []string{`spec.loadBalancerSourceRanges: Forbidden: may only be used when`}},
		{"X10 source ranges", `{type: LoadBalancer, loadBalancerSourceRanges: ["10.0.0.0/33", 10.0.0.1], ` + p + `}`, []string{`spec.loadBalancerSourceRanges[0]: Invalid value: "10.0.0.0/33": must be a valid CIDR`, `spec.loadBalancerSourceRanges[1]: Invalid value: "10.0.0.1"`}},
		{"A-10 load balancer's address", `{type: LoadBalancer, loadBalancerIP: 203.0.113.7, ` + p + `}`, nil},
		{"A-10 load balancer's bad address", `{type: LoadBalancer, loadBalancerIP: here, ` + p + `}`, []string{`spec.loadBalancerIP: Invalid value: "here"`}},
		{"A-10 class", `{type: LoadBalancer, loadBalancerClass: example.com/fast, ` + p + `}`, nil},
		{"A-10 bad class", `{type: LoadBalancer, loadBalancerClass: "a/b/c", ` + p + `}`, []string{`spec.loadBalancerClass: Invalid value: "a/b/c"`}},
		{"A-10 class of a NodePort service", `{type: NodePort, loadBalancerClass: example.com/fast, ` + p + `}`, []string{`spec.loadBalancerClass: Forbidden: may only`}},
		{"A-10 node port switch of a NodePort service", `{type: NodePort, allocateLoadBalancerNodePorts: false, ` + p + `}`, []string{`spec.allocateLoadBalancerNodePorts: Forbidden: may only`}},
	})
}

func TestServiceExternalName(t *testing.T) {
	t.Parallel()
	runServiceCases(t, Options{}, []serviceCase{
		{"X1 a name", `{type: ExternalName, externalName: www.example.com}`, nil},
		{"X1 with a dot at the end", `{type: ExternalName, externalName: www.example.com.}`, nil},
		{"X10 an IPv4 literal", `{type: ExternalName, externalName: 192.0.2.7}`, nil},
		{"X14 upper case", `{type: ExternalName, externalName: WWW.Example.com}`, nil},
		{"ports are ignored", `{type: ExternalName, externalName: a.b, ports: [{port: 80}]}`, nil},
		{"no name", `{type: ExternalName}`, []string{`spec.externalName: Required value`}},
		{"not a name", `{type: ExternalName, externalName: "not a name!"}`, []string{`spec.externalName: Invalid value: "not a name!": `}},
		{"two dots", `{type: ExternalName, externalName: "a.b.."}`, []string{`spec.externalName: Invalid value: "a.b..": `}},
		{"an IPv6 literal", `{type: ExternalName, externalName: "2001:db8::1"}`, []string{`spec.externalName: Invalid value: "2001:db8::1": `}},
		{"P-02 with a cluster IP", `{type: ExternalName, externalName: a.b, clusterIP: 10.0.0.1, ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}`, []string{
			`spec.clusterIPs: Forbidden: may not be set for ExternalName`, `spec.ipFamilies: Forbidden`, `spec.ipFamilyPolicy: Forbidden`,
		}},
	})
}

func TestServiceMetadata(t *testing.T) {
	t.Parallel()
	const spec = "\nspec: {ports: [{port: 80}]}"
	for _, c := range []struct {
		name, metadata string
		want           []string
	}{
		{"namespace is defaulted", `{name: web}`, nil},
		{"A-10 a name that starts with a digit", `{name: 1web}`, []string{`metadata.name: Invalid value: "1web": `}},
		{"a name with a dot", `{name: a.b}`, []string{`metadata.name: Invalid value: "a.b": `}},
		{"X10 a name of 300", `{name: ` + strings.Repeat("a", 300) + `}`, []string{`metadata.name: Invalid value: `}},
		{"no name", `{namespace: shop}`, []string{`metadata.name: Required value`}},
		{"a bad namespace", `{name: web, namespace: Shop}`, []string{`metadata.namespace: Invalid value: "Shop": `}},
		{"a bad label", `{name: web, labels: {a: "-"}}`, []string{`metadata.labels: Invalid value: "-": `}},
		{"a bad annotation key", `{name: web, annotations: {"a b": c}}`, []string{`metadata.annotations: Invalid value: "a b": `}},
		{"X10 any annotation value", `{name: web, annotations: {a: "\"\n-j DROP"}}`, nil},
		{"topology annotations agree", `{name: web, annotations: {service.kubernetes.io/topology-mode: Auto, service.kubernetes.io/topology-aware-hints: auto}}`, nil},
		{"topology annotations differ", `{name: web, annotations: {service.kubernetes.io/topology-mode: Auto, service.kubernetes.io/topology-aware-hints: disabled}}`, []string{`metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: "Auto": `}},
		{"source ranges annotation", `{name: web, annotations: {service.beta.kubernetes.io/load-balancer-source-ranges: 10.0.0.0/8}}`, []string{`metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Forbidden: may only`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			svc := decode(t, "kind: Service\nmetadata: "+c.metadata+spec)
			Options{}.Default(svc)
			expect(t, lines(Options{}.Validate(svc, nil)), c.want)
		})
	}
}

func TestSourceRangesAnnotation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                            nil,
		"10.0.0.0/8, 192.168.0.0/16 ": nil,
		"10.0.0.0/8,x":                {"metadata.annotations[" + corev1.AnnotationLoadBalancerSourceRangesKey + `]: Invalid value: "10.0.0.0/8,x": `},
	} {
		svc := service(t, `{type: LoadBalancer, ports: [{port: 80}]}`)
		svc.Annotations = map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: text}
		Options{}.Default(svc)
		expect(t, lines(Options{}.Validate(svc, nil)), want)
	}
}

func TestServiceUpdate(t *testing.T) {
	t.Parallel()
	const p = `, ports: [{port: 80}]}`
	for _, c := range []struct {
		name, before, after string
		want                []string
	}{
		{"A-03 nothing changes", `{clusterIP: 10.0.0.1` + p, `{clusterIP: 10.0.0.1` + p, nil},
		{"A-03 not given again", `{clusterIP: 10.0.0.1` + p, `{type: ClusterIP` + p, nil},
		{"A-03 given later", `{type: ClusterIP` + p, `{clusterIP: 10.0.0.1` + p, nil},
		{"A-03 another address", `{clusterIP: 10.0.0.1` + p, `{clusterIP: 10.0.0.2` + p, []string{`spec.clusterIPs[0]: Invalid value: "10.0.0.2": field is immutable`}},
		{"A-03 None gets an address", `{clusterIP: None` + p, `{clusterIP: 10.0.0.1` + p, []string{`spec.clusterIPs[0]: Invalid value: "10.0.0.1": field is immutable`}},
		{"A-03 None is dropped", `{clusterIP: None` + p, `{type: ClusterIP` + p, []string{`spec.clusterIPs[0]: Invalid value: "": field is immutable`}},
		{"A-03 becomes None", `{clusterIP: 10.0.0.1` + p, `{clusterIP: None` + p, []string{`spec.clusterIPs[0]: Invalid value: "None": field is immutable`}},
		{"A-08 to ExternalName", `{clusterIP: 10.0.0.1` + p, `{type: ExternalName, externalName: a.b` + p, nil},
		{"A-08 from ExternalName", `{type: ExternalName, externalName: a.b` + p, `{clusterIP: 10.0.0.2` + p, nil},
		{"A-08 single to dual stack", `{clusterIP: 10.0.0.1` + p, `{ipFamilyPolicy: PreferDualStack, clusterIPs: [10.0.0.1, "fd00::1"]` + p, nil},
		{"A-08 dual to single stack", `{ipFamilyPolicy: PreferDualStack, clusterIPs: [10.0.0.1, "fd00::1"]` + p, `{clusterIP: 10.0.0.1` + p, nil},
		{"another second address", `{ipFamilyPolicy: PreferDualStack, clusterIPs: [10.0.0.1, "fd00::1"]` + p, `{ipFamilyPolicy: PreferDualStack, clusterIPs: [10.0.0.1, "fd00::2"]` + p, []string{`spec.clusterIPs[1]: Invalid value: "fd00::2": may not change`}},
		{"another first family", `{ipFamilies: [IPv6]` + p, `{ipFamilies: [IPv4]` + p, []string{`spec.ipFamilies[0]: Invalid value: "IPv4": may not change`}},
		{"another class", `{type: LoadBalancer, loadBalancerClass: a` + p, `{type: LoadBalancer, loadBalancerClass: b` + p, []string{`spec.loadBalancerClass: Invalid value: "b": may not change`}},
		{"class and type go", `{type: LoadBalancer, loadBalancerClass: a` + p, `{type: NodePort` + p, nil},
		{"A-07 another health-check port", `{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 32000` + p, `{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 32001` + p, []string{`spec.healthCheckNodePort: Invalid value: 32001: field is immutable`}},
		{"A-07 policy goes", `{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 32000` + p, `{type: LoadBalancer` + p, nil},
		{"an old spelling may stay", `{externalIPs: ["010.0.0.1"]` + p, `{externalIPs: ["010.0.0.1"]` + p, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before, after := service(t, c.before), service(t, c.after)
			dualStack.Default(before)
			dualStack.Default(after)
			expect(t, lines(dualStack.Validate(after, before)), c.want)
		})
	}
}

// TestServiceWithoutDefaults validates an object as it was written: what
// defaulting would have filled in is required.
func TestServiceWithoutDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []serviceCase{
		{"ClusterIP", `ports: [{port: 80, targetPort: 80}]`, []string{
			`spec.type: Unsupported value: ""`, `spec.ports[0].protocol: Required value`, `spec.sessionAffinity: Required value`,
			`spec.internalTrafficPolicy: Required value`, `spec.ipFamilyPolicy: Required value`,
		}},
		{"LoadBalancer", `{type: LoadBalancer, ports: [{port: 80, protocol: TCP, targetPort: 80}], sessionAffinity: ClientIP, internalTrafficPolicy: Local, ipFamilyPolicy: SingleStack}`, []string{
			`spec.sessionAffinityConfig.clientIP.timeoutSeconds: Required value`, `spec.externalTrafficPolicy: Required value`,
			`spec.allocateLoadBalancerNodePorts: Required value`,
		}},
		{"affinity None with a config", `{type: ClusterIP, clusterIP: None, sessionAffinity: None, sessionAffinityConfig: {}, internalTrafficPolicy: Local, ipFamilyPolicy: SingleStack}`, []string{
			`spec.sessionAffinityConfig: Forbidden: must not be set`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expect(t, lines(Options{}.Validate(service(t, c.spec), nil)), c.want)
		})
	}
}
