package convert

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// benchObjects is one Service with a slice of ten endpoints.
func benchObjects(b *testing.B) (*corev1.Service, *discoveryv1.EndpointSlice) {
	svc := service(b, `{clusterIP: 10.96.0.10, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}`)
	slice := decode(b, "kind: EndpointSlice\nmetadata: {name: web-1, namespace: shop}\naddressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints: []").(*discoveryv1.EndpointSlice)
	for i := range 10 {
		node, zone := fmt.Sprintf("node-%d", i), "a"
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("172.16.0.%d", i+1)}, NodeName: &node, Zone: &zone,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: fmt.Sprintf("web-%d", i)},
		})
	}
	Options{}.Default(svc)
	Options{}.Default(slice)
	return svc, slice
}

func BenchmarkService(b *testing.B) {
	svc, slice := benchObjects(b)
	slices := []*discoveryv1.EndpointSlice{slice}
	b.ReportAllocs()
	for b.Loop() {
		Service(svc, slices)
	}
}

func BenchmarkValidateService(b *testing.B) {
	svc, _ := benchObjects(b)
	b.ReportAllocs()
	for b.Loop() {
		Options{}.Validate(svc, nil)
	}
}

func BenchmarkValidateSlice(b *testing.B) {
	_, slice := benchObjects(b)
	b.ReportAllocs()
	for b.Loop() {
		Options{}.Validate(slice, nil)
	}
}

func BenchmarkDefaultAndValidatePod(b *testing.B) {
	pod := decode(b, "kind: Pod\nmetadata: {name: web-1, namespace: shop, labels: {app: web}}\nspec: {nodeName: node-1, containers: [{name: web, ports: [{name: http, containerPort: 80}]}]}\nstatus: {phase: Running, podIP: 172.16.0.1, conditions: [{type: Ready, status: 'True'}]}")
	b.ReportAllocs()
	for b.Loop() {
		Options{}.Default(pod)
		Options{}.Validate(pod, nil)
	}
}
