package convert

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"signpost/discovery"
)

var compareAddrs = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

func TestServiceOfEveryField(t *testing.T) {
	t.Parallel()
	obj := decode(t, `
kind: Service
metadata:
  name: web
  namespace: shop
  uid: u-1
  creationTimestamp: "2026-01-02T03:04:05Z"
  labels: {app: web, service.kubernetes.io/service-proxy-name: "", service.kubernetes.io/headless: ""}
  annotations:
    signpost/scheduler: wlc
    kube-router.io/service.scheduler: sh
    kube-router.io/service.schedflags: flag-1
    service.kubernetes.io/topology-mode: Auto
    other: dropped
spec:
  type: LoadBalancer
  clusterIPs: [10.0.0.1, "FD00:0::1"]
  ipFamilyPolicy: PreferDualStack
  externalIPs: [192.0.2.1, 192.0.2.1]
  ports:
  - {name: http, port: 80, targetPort: web, nodePort: 30080}
  - {name: dns, port: 53, protocol: UDP}
  selector: {app: web}
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}
  externalTrafficPolicy: Local
  internalTrafficPolicy: Local
  healthCheckNodePort: 32000
  publishNotReadyAddresses: true
  loadBalancerIP: 203.0.113.9
  loadBalancerSourceRanges: [10.0.0.0/8, " 2001:db8::/32"]
status:
  loadBalancer:
    ingress: [{ip: 203.0.113.1}, {hostname: lb.example.com}, {ip: 203.0.113.2, ipMode: Proxy}, {ip: 203.0.113.3, ipMode: VIP}]
`)
	dualStack.Default(obj)
	expect(t, lines(dualStack.Validate(obj, nil)), nil)
	svc := obj.(*corev1.Service)
	got, warnings := Service(svc, nil)
	expect(t, warnings, nil)
	want := &discovery.Service{
		Key: discovery.Key{Namespace: "shop", Name: "web"}, UID: "u-1",
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Kind:    discovery.ClusterIP, Type: discovery.TypeLoadBalancer,
		ClusterIPs: addrs("10.0.0.1", "fd00::1"), ExternalIPs: addrs("192.0.2.1"),
		LoadBalancerIPs: addrs("203.0.113.1", "203.0.113.3"),
		Ingress:         []string{"203.0.113.1", "lb.example.com", "203.0.113.2", "203.0.113.3"},
		Ports: []discovery.Port{
			{Name: "http", Port: 80, NodePort: 30080, TargetPort: "web"},
			{Name: "dns", Protocol: discovery.UDP, Port: 53, TargetPort: "53"},
		},
		InternalPolicy: discovery.PolicyLocal, ExternalPolicy: discovery.PolicyLocal,
		Affinity:        discovery.Affinity{ClientIP: true, Timeout: time.Minute},
		SourceRanges:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
		SourceRangesSet: true, HealthCheckNodePort: 32000, PublishNotReady: true,
		Selector: map[string]string{"app": "web"}, Labels: svc.Labels,
		Annotations: map[string]string{
			AnnotationScheduler: "wlc", AnnotationKubeRouterScheduler: "sh", AnnotationKubeRouterFlags: "flag-1",
			"service.kubernetes.io/topology-mode": "Auto",
		},
		HasProxy: true,
	}
	if diff := cmp.Diff(want, got, compareAddrs); diff != "" {
		t.Errorf("model (-want +got):\n%s", diff)
	}
}

func TestServiceKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, spec string
		want       discovery.Service
	}{
		{"S18 not allocated yet", `{type: ClusterIP}`, discovery.Service{}},
		{"S3 only clusterIP", `{clusterIP: 10.0.0.1}`, discovery.Service{ClusterIPs: addrs("10.0.0.1")}},
		{"headless", `{clusterIP: None}`, discovery.Service{Kind: discovery.Headless}},
		{"headless by the list", `{clusterIPs: [None]}`, discovery.Service{Kind: discovery.Headless}},
		{"NodePort", `{type: NodePort}`, discovery.Service{Type: discovery.TypeNodePort}},
		{"X1 without the dot", `{type: ExternalName, externalName: WWW.example.com.}`, discovery.Service{Kind: discovery.ExternalName, Type: discovery.TypeExternalName, ExternalName: "WWW.example.com"}},
		{"P-02 ExternalName with an address", `{type: ExternalName, externalName: a.b, clusterIP: 10.0.0.1}`, discovery.Service{Kind: discovery.ExternalName, Type: discovery.TypeExternalName, ExternalName: "a.b"}},
		{"P-16 affinity without config", `{sessionAffinity: ClientIP}`, discovery.Service{Affinity: discovery.Affinity{ClientIP: true, Timeout: 3 * time.Hour}}},
		{"A-07 health-check port without need", `{type: LoadBalancer, healthCheckNodePort: 32000}`, discovery.Service{Type: discovery.TypeLoadBalancer}},
		{"no node port of a ClusterIP service", `{ports: [{port: 80, nodePort: 30000}]}`, discovery.Service{Ports: []discovery.Port{{Port: 80, TargetPort: "80"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, warnings := Service(service(t, c.spec), nil)
			expect(t, warnings, nil)
			c.want.Key = discovery.Key{Namespace: "shop", Name: "web"}
			if diff := cmp.Diff(&c.want, got, compareAddrs); diff != "" {
				t.Errorf("model (-want +got):\n%s", diff)
			}
		})
	}
}

// TestServiceWarnings gives Service what validation would have refused: the
// rest of the object must live on (X10).
func TestServiceWarnings(t *testing.T) {
	t.Parallel()
	const twice = `must be a valid IP address`
	for _, c := range []struct {
		name, spec string
		want       []string
		check      func(*discovery.Service) bool
	}{
		{
			"X10 cluster IP", `{clusterIPs: [10.96.0.300, "010.1.1.1"]}`,
			[]string{`spec.clusterIPs[0]: Invalid value: "10.96.0.300": ` + twice},
			func(s *discovery.Service) bool { return s.ClusterIPs[0] == netip.MustParseAddr("10.1.1.1") },
		},
		{
			"P-09 IPv4-mapped", `{clusterIP: "::ffff:10.0.0.1"}`, nil,
			func(s *discovery.Service) bool { return s.ClusterIPs[0] == netip.MustParseAddr("10.0.0.1") },
		},
		{
			"X10 external address", `{externalIPs: [x, 192.0.2.1]}`,
			[]string{`spec.externalIPs[0]: Invalid value: "x": ` + twice},
			func(s *discovery.Service) bool { return len(s.ExternalIPs) == 1 },
		},
		{
			"X10 ports", `{type: NodePort, ports: [{port: 0}, {port: 65536}, {port: -1}, {port: 80, protocol: QUIC}, {port: 80, nodePort: 70000}, {port: 80}]}`,
			[]string{
				`spec.ports[0].port: Invalid value: 0: must be between 1 and 65535`, `spec.ports[1].port: Invalid value: 65536`,
				`spec.ports[2].port: Invalid value: -1`, `spec.ports[3].protocol: Invalid value: "QUIC": unknown protocol`,
				`spec.ports[4].nodePort: Invalid value: 70000`, `spec.ports[5]: Invalid value: "80/TCP": stands here twice`,
			},
			func(s *discovery.Service) bool { return len(s.Ports) == 1 && s.Ports[0].NodePort == 0 },
		},
		{
			"P-18 source ranges stay closed", `{type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0/33, garbage, "1.2.3.4/x", "::ffff:10.0.0.0/90"]}`,
			[]string{
				`spec.loadBalancerSourceRanges[0]: Invalid value: "10.0.0.0/33": `, `spec.loadBalancerSourceRanges[1]: Invalid value: "garbage"`,
				`spec.loadBalancerSourceRanges[2]: `, `spec.loadBalancerSourceRanges[3]: `,
			},
			func(s *discovery.Service) bool { return s.SourceRangesSet && len(s.SourceRanges) == 0 },
		},
		{
			"P-18 lenient source ranges", `{loadBalancerSourceRanges: [" 010.1.2.3/08 ", "::ffff:192.168.1.1/112"]}`, nil,
			func(s *discovery.Service) bool {
				return s.SourceRanges[0] == netip.MustParsePrefix("10.0.0.0/8") && s.SourceRanges[1] == netip.MustParsePrefix("192.168.0.0/16")
			},
		},
		{
			"X10 timeout 0", `{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}}`,
			[]string{`spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: `},
			func(s *discovery.Service) bool { return s.Affinity.Timeout == 3*time.Hour },
		},
		{
			"words that are unknown", `{type: Cluster, sessionAffinity: Cookie, internalTrafficPolicy: Zone, externalTrafficPolicy: Zone}`,
			[]string{`spec.type: Invalid value: "Cluster": `, `spec.internalTrafficPolicy: Invalid value: "Zone"`, `spec.externalTrafficPolicy: Invalid value: "Zone"`, `spec.sessionAffinity: Invalid value: "Cookie"`},
			func(s *discovery.Service) bool {
				return !s.Affinity.ClientIP && s.InternalPolicy == discovery.PolicyCluster
			},
		},
		{
			"no external name", `{type: ExternalName, externalName: "."}`,
			[]string{`spec.externalName: Invalid value: ".": `},
			func(s *discovery.Service) bool { return s.Kind == discovery.ExternalName },
		},
		{
			"X10 health-check port", `{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: -3}`,
			[]string{`spec.healthCheckNodePort: Invalid value: -3: `},
			func(s *discovery.Service) bool { return s.HealthCheckNodePort == 0 },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, warnings := Service(service(t, c.spec), nil)
			expect(t, warnings, c.want)
			if !c.check(got) {
				t.Errorf("wrong model: %+v", got)
			}
		})
	}
}

func TestServiceIngressWarnings(t *testing.T) {
	t.Parallel()
	const status = "\nstatus: {loadBalancer: {ingress: [{ip: host}, {}, {ip: 203.0.113.1}, {ip: 203.0.113.1}]}}"
	lb, warnings := Service(decode(t, "kind: Service\nmetadata: {name: a}\nspec: {type: LoadBalancer}"+status).(*corev1.Service), nil)
	expect(t, warnings, []string{`status.loadBalancer.ingress[0].ip: Invalid value: "host": must be a valid IP address`})
	if diff := cmp.Diff(addrs("203.0.113.1"), lb.LoadBalancerIPs, compareAddrs); diff != "" {
		t.Errorf("P-17 addresses (-want +got):\n%s", diff)
	}
	other, warnings := Service(decode(t, "kind: Service\nmetadata: {name: a}\nspec: {type: NodePort}"+status).(*corev1.Service), nil)
	expect(t, warnings, []string{`status.loadBalancer.ingress: Invalid value: 4: may only be used when`})
	if len(other.LoadBalancerIPs)+len(other.Ingress) > 0 {
		t.Errorf("a NodePort service has load-balancer addresses: %+v", other)
	}
}

func TestServiceWithSlices(t *testing.T) {
	t.Parallel()
	slice := func(name string, kind discoveryv1.AddressType, addr string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{AddressType: kind, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{addr}}}}
		s.Namespace, s.Name = "shop", name
		return s
	}
	all := []*discoveryv1.EndpointSlice{
		slice("four", "IPv4", "172.16.0.1"), slice("six", "IPv6", "fd00::1"), slice("name", "FQDN", "a.b"), slice("mixed", "IPv4", "fd00::2"),
	}
	const (
		fqdn  = `EndpointSlice "shop/name": addressType: Invalid value: "FQDN": neither IPv4 nor IPv6`
		mixed = `EndpointSlice "shop/mixed": endpoints[0].addresses[0]: Invalid value: "fd00::2": must be an IPv4 address`
	)
	for _, c := range []struct {
		name, spec string
		want       string
		warnings   []string
	}{
		{"X23 IPv6 endpoints of an IPv4 service", `{clusterIP: 10.0.0.1}`, "four mixed", []string{`EndpointSlice "shop/six": addressType: Invalid value: "IPv6": the Service has no cluster IP`, fqdn, mixed}},
		{"dual stack", `{clusterIPs: [10.0.0.1, "fd00::1"]}`, "four six mixed", []string{fqdn, mixed}},
		{"headless", `{clusterIP: None}`, "four six mixed", []string{fqdn, mixed}},
		{"E-01 ExternalName", `{type: ExternalName, externalName: a.b}`, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, warnings := Service(service(t, c.spec), all)
			expect(t, warnings, c.warnings)
			var names []string
			for _, s := range got.Slices {
				names = append(names, s.Name)
			}
			if have := strings.Join(names, " "); have != c.want {
				t.Errorf("slices %q, want %q", have, c.want)
			}
		})
	}
}
