package convert_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"signpost/discovery/convert"
)

func Example() {
	const manifest = `
metadata: {name: web}
spec:
  clusterIP: 10.96.0.80
  ports: [{port: 80, targetPort: http}]
`
	svc := &corev1.Service{}
	if err := yaml.Unmarshal([]byte(manifest), svc); err != nil {
		fmt.Println(err)
		return
	}
	opts := convert.Options{Families: []corev1.IPFamily{corev1.IPv4Protocol}}
	opts.Default(svc)
	if refusal := convert.Refuse(svc, opts.Validate(svc, nil)); refusal != nil {
		fmt.Println(refusal)
		return
	}
	port := int32(8080)
	slice := &discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"010.0.0.1"}}},
	}
	s, warnings := convert.Service(svc, []*discoveryv1.EndpointSlice{slice})
	fmt.Println(s.Key, s.Kind, s.ClusterIPs, s.Slices[0].Endpoints[0].Addr, len(warnings))

	svc.Spec.Ports[0].Port = 0
	for _, line := range convert.Refuse(svc, opts.Validate(svc, nil)).Lines() {
		fmt.Println(line)
	}
	// Output:
	// default/web ClusterIP [10.96.0.80] 10.0.0.1 0
	// Service "default/web": spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
}
