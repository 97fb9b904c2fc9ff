package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestDefault compares an object after its defaulting with the object that
// someone would have written who leaves out nothing.
func TestDefault(t *testing.T) {
	t.Parallel()
	const (
		common = "sessionAffinity: None, internalTrafficPolicy: Cluster"
		head   = "kind: Service\nmetadata: {name: web"
		v4     = "ipFamilies: [IPv4], ipFamilyPolicy: SingleStack"
		both   = "ipFamilies: [IPv4, IPv6], ipFamilyPolicy: "
	)
	cases := []struct {
		name         string
		opts         Options
		given, wants string
	}{
		{
			"a Service of one line",
			Options{},
			head + "}\nspec: {ports: [{port: 80}]}",
			head + ", namespace: default}\nspec: {type: ClusterIP, ports: [{port: 80, protocol: TCP, targetPort: 80}], " + common + ", " + v4 + "}",
		},
		{
			"what is given stays",
			Options{},
			head + ", namespace: shop}\nspec: {ports: [{port: 53, protocol: UDP, targetPort: dns}], clusterIP: 10.0.0.1}",
			head + ", namespace: shop}\nspec: {type: ClusterIP, ports: [{port: 53, protocol: UDP, targetPort: dns}], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], " + common + ", " + v4 + "}",
		},
		{
			"clusterIP from clusterIPs", dualStack, head + "}\nspec: {clusterIPs: ['fd00::1'], ports: []}",
			head + ", namespace: default}\nspec: {type: ClusterIP, ports: [], clusterIP: 'fd00::1', clusterIPs: ['fd00::1'], " + common + ", ipFamilies: [IPv6], ipFamilyPolicy: SingleStack}",
		},
		{
			"P-16 affinity without a timeout",
			Options{},
			head + "}\nspec: {ports: [], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {}}}",
			head + ", namespace: default}\nspec: {type: ClusterIP, ports: [], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}, internalTrafficPolicy: Cluster, " + v4 + "}",
		},
		{
			"affinity None has no config",
			Options{},
			head + "}\nspec: {ports: [], sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}}",
			head + ", namespace: default}\nspec: {type: ClusterIP, ports: [], " + common + ", " + v4 + "}",
		},
		{
			"NodePort",
			Options{},
			head + "}\nspec: {type: NodePort, ports: []}",
			head + ", namespace: default}\nspec: {type: NodePort, ports: [], externalTrafficPolicy: Cluster, " + common + ", " + v4 + "}",
		},
		{
			"external addresses",
			Options{},
			head + "}\nspec: {externalIPs: [192.0.2.1], ports: []}",
			head + ", namespace: default}\nspec: {type: ClusterIP, externalIPs: [192.0.2.1], ports: [], externalTrafficPolicy: Cluster, " + common + ", " + v4 + "}",
		},
		{
			"P-17 LoadBalancer",
			Options{},
			head + "}\nspec: {type: LoadBalancer, ports: []}\nstatus: {loadBalancer: {ingress: [{ip: 203.0.113.1}, {hostname: a.b}, {ip: 203.0.113.2, ipMode: Proxy}]}}",
			head + ", namespace: default}\nspec: {type: LoadBalancer, ports: [], externalTrafficPolicy: Cluster, allocateLoadBalancerNodePorts: true, " + common + ", " + v4 + "}\n" +
				"status: {loadBalancer: {ingress: [{ip: 203.0.113.1, ipMode: VIP}, {hostname: a.b}, {ip: 203.0.113.2, ipMode: Proxy}]}}",
		},
		{
			"ExternalName",
			Options{},
			head + "}\nspec: {type: ExternalName, externalName: a.b}",
			head + ", namespace: default}\nspec: {type: ExternalName, externalName: a.b, sessionAffinity: None}",
		},
		{
			"prefer dual stack, have it", dualStack, head + "}\nspec: {ipFamilyPolicy: PreferDualStack, clusterIP: 10.0.0.1, ports: []}",
			head + ", namespace: default}\nspec: {type: ClusterIP, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [], " + common + ", " + both + "PreferDualStack}",
		},
		{
			"prefer dual stack, have one",
			Options{},
			head + "}\nspec: {ipFamilyPolicy: PreferDualStack, ports: []}",
			head + ", namespace: default}\nspec: {type: ClusterIP, ports: [], " + common + ", ipFamilies: [IPv4], ipFamilyPolicy: PreferDualStack}",
		},
		{
			"headless with a selector", dualStack, head + "}\nspec: {clusterIP: None, selector: {a: b}}",
			head + ", namespace: default}\nspec: {type: ClusterIP, clusterIP: None, clusterIPs: [None], selector: {a: b}, " + common + ", " + v4 + "}",
		},
		{
			"headless without a selector",
			Options{},
			head + "}\nspec: {clusterIP: None}",
			head + ", namespace: default}\nspec: {type: ClusterIP, clusterIP: None, clusterIPs: [None], " + common + ", " + both + "RequireDualStack}",
		},
		{
			"headless without a selector, IPv6 first",
			Options{},
			head + "}\nspec: {clusterIP: None, ipFamilies: [IPv6], ipFamilyPolicy: PreferDualStack}",
			head + ", namespace: default}\nspec: {type: ClusterIP, clusterIP: None, clusterIPs: [None], " + common + ", ipFamilies: [IPv6, IPv4], ipFamilyPolicy: PreferDualStack}",
		},
		{
			"Endpoints",
			Options{},
			"kind: Endpoints\nmetadata: {name: a}\nsubsets: [{ports: [{port: 80}, {port: 53, protocol: UDP}]}]",
			"kind: Endpoints\nmetadata: {name: a, namespace: default}\nsubsets: [{ports: [{port: 80, protocol: TCP}, {port: 53, protocol: UDP}]}]",
		},
		{
			"P-03, P-06 EndpointSlice",
			Options{},
			"kind: EndpointSlice\nmetadata: {name: a}\naddressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: []}, {addresses: [], conditions: {ready: false}}, {addresses: [], conditions: {ready: false, terminating: true}}]",
			"kind: EndpointSlice\nmetadata: {name: a, namespace: default}\naddressType: IPv4\nports: [{name: '', port: 80, protocol: TCP}]\nendpoints: [" +
				"{addresses: [], conditions: {ready: true, serving: true, terminating: false}}, " +
				"{addresses: [], conditions: {ready: false, serving: false, terminating: false}}, " +
				"{addresses: [], conditions: {ready: false, serving: true, terminating: true}}]",
		},
		{
			"Pod with one address field",
			Options{},
			"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, ports: [{containerPort: 80}]}], initContainers: [{name: i, ports: [{containerPort: 81}]}]}\nstatus: {podIP: 10.0.0.1}",
			"kind: Pod\nmetadata: {name: a, namespace: default}\nspec: {containers: [{name: c, ports: [{containerPort: 80, protocol: TCP}]}], initContainers: [{name: i, ports: [{containerPort: 81, protocol: TCP}]}]}\nstatus: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}",
		},
		{
			"Pod with the list",
			Options{},
			"kind: Pod\nmetadata: {name: a}\nspec: {containers: []}\nstatus: {podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}",
			"kind: Pod\nmetadata: {name: a, namespace: default}\nspec: {containers: []}\nstatus: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}",
		},
		{
			"Pod whose fields differ",
			Options{},
			"kind: Pod\nmetadata: {name: a}\nspec: {containers: []}\nstatus: {podIP: 10.0.0.2, podIPs: [{ip: 10.0.0.1}]}",
			"kind: Pod\nmetadata: {name: a, namespace: default}\nspec: {containers: []}\nstatus: {podIP: 10.0.0.2, podIPs: [{ip: 10.0.0.2}]}",
		},
		{
			"readiness probes",
			Options{},
			"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, readinessProbe: {httpGet: {port: 80}}}, {name: d, readinessProbe: {grpc: {port: 80}, periodSeconds: 2}}]}",
			"kind: Pod\nmetadata: {name: a, namespace: default}\nspec: {containers: [" +
				"{name: c, readinessProbe: {httpGet: {port: 80, path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}}, " +
				"{name: d, readinessProbe: {grpc: {port: 80, service: ''}, timeoutSeconds: 1, periodSeconds: 2, successThreshold: 1, failureThreshold: 3}}]}",
		},
		{
			"Node with one CIDR field",
			Options{},
			"kind: Node\nmetadata: {name: a}\nspec: {podCIDR: 10.0.0.0/24}",
			"kind: Node\nmetadata: {name: a}\nspec: {podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24]}",
		},
		{
			"Node with the list",
			Options{},
			"kind: Node\nmetadata: {name: a}\nspec: {podCIDRs: [10.0.0.0/24]}",
			"kind: Node\nmetadata: {name: a}\nspec: {podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24]}",
		},
		{"Namespace", Options{}, "kind: Namespace\nmetadata: {name: a}", "kind: Namespace\nmetadata: {name: a}"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, want := decode(t, c.given), decode(t, c.wants)
			c.opts.Default(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("after defaulting (-want +got):\n%s", diff)
			}
			c.opts.Default(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after defaulting twice (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultAndValidateLeaveUnknownKindsAlone(t *testing.T) {
	t.Parallel()
	obj := &corev1.ConfigMap{}
	Options{}.Default(obj)
	if diff := cmp.Diff(&corev1.ConfigMap{}, obj); diff != "" {
		t.Errorf("a ConfigMap changed:\n%s", diff)
	}
	if errs := (Options{}).Validate(obj, nil); len(errs) > 0 {
		t.Errorf("a ConfigMap has problems: %v", errs)
	}
}
