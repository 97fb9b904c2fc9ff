package convert

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"signpost/discovery"
)

var fuzzKinds = [...]string{"Service", "Endpoints", "EndpointSlice", "Pod", "Node", "Namespace"}

// FuzzObject decodes any JSON into each kind and takes it the whole way: no
// panic; defaulting twice is defaulting once; the model of a Service that
// validation accepts holds all that the Service does.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":{"name":"web"},"spec":{"type":"LoadBalancer","clusterIPs":["10.0.0.1","fd00::1"],"ipFamilyPolicy":"PreferDualStack","ports":[{"port":80,"nodePort":30000,"targetPort":"http"}],"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{}},"loadBalancerSourceRanges":["10.0.0.0/8"]},"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.1"}]}}}`,
		`{"metadata":{"name":"web"},"spec":{"clusterIP":"None","ipFamilies":["IPv6"],"trafficDistribution":"PreferClose"}}`,
		`{"metadata":{"name":"web"},"spec":{"type":"ExternalName","externalName":"a.b."}}`,
		`{"metadata":{"name":"web"},"subsets":[{"addresses":[{"ip":"010.0.0.1","nodeName":"a"}],"ports":[{"port":80}]}]}`,
		`{"metadata":{"name":"web"},"addressType":"IPv4","ports":[{"name":null,"port":80}],"endpoints":[{"addresses":["10.0.0.1"],"hints":{"forZones":[{"name":"a"}]},"targetRef":{"kind":"Pod"}}]}`,
		`{"metadata":{"name":"web"},"spec":{"containers":[{"ports":[{"containerPort":80}],"readinessProbe":{"grpc":{"port":1}}}]},"status":{"podIPs":[{"ip":"10.0.0.1"}],"conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"metadata":{"name":"web"},"spec":{"podCIDRs":["10.0.0.0/24"]},"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range fuzzKinds {
			for _, opts := range []Options{{}, dualStack, {AllowLoopback: true}} {
				obj := newObject(kind)
				if json.Unmarshal(data, obj) != nil {
					continue
				}
				raw := obj.DeepCopyObject()
				opts.Default(obj)
				once := obj.DeepCopyObject()
				opts.Default(obj)
				if diff := cmp.Diff(once, obj); diff != "" {
					t.Fatalf("%s: defaulting again changes it:\n%s", kind, diff)
				}
				errs := opts.Validate(obj, nil)
				opts.Validate(obj, raw)
				if r := Refuse(obj, errs); r != nil {
					_, _ = r.Error(), r.Lines()
				}
				toModel(t, raw, false)
				toModel(t, obj, len(errs) == 0)
			}
		}
	})
}

func toModel(t *testing.T, obj runtime.Object, valid bool) {
	switch obj := obj.(type) {
	case *corev1.Service:
		s, warnings := Service(obj, nil)
		if valid {
			checkModel(t, obj, s, warnings)
		}
	case *discoveryv1.EndpointSlice:
		Slice(obj)
		Service(&corev1.Service{}, []*discoveryv1.EndpointSlice{obj})
	case *corev1.Pod:
		Pod(obj)
	case *corev1.Node:
		Node(obj)
	}
}

// checkModel checks that nothing of a valid Service is lost. What its status
// says was not validated.
func checkModel(t *testing.T, svc *corev1.Service, s *discovery.Service, warnings []string) {
	if len(warnings) > 0 && len(svc.Status.LoadBalancer.Ingress) == 0 {
		t.Fatalf("a valid Service has warnings: %v", warnings)
	}
	if len(s.Ports) != len(svc.Spec.Ports) {
		t.Fatalf("%d ports, want %d", len(s.Ports), len(svc.Spec.Ports))
	}
	if s.Kind == discovery.ClusterIP && len(s.ClusterIPs) != len(svc.Spec.ClusterIPs) {
		t.Fatalf("cluster IPs %v, want %v", s.ClusterIPs, svc.Spec.ClusterIPs)
	}
	for _, a := range s.ClusterIPs {
		if !a.IsValid() || a.Is4In6() {
			t.Fatalf("address %v is not canonical", a)
		}
	}
}
