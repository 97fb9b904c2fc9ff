package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"signpost/integration/apistub"
)

const (
	namespaces = 20
	endpoints  = 10 // of each service
)

// cluster is the objects that both servers are given.
type cluster struct {
	namespaces []*corev1.Namespace
	services   []*corev1.Service
	slices     []*discoveryv1.EndpointSlice
	pods       int
}

// newCluster makes n services with a virtual address and ten endpoints each,
// and three headless ones of 10, 100 and 1,000.
func newCluster(n int) *cluster {
	c := &cluster{}
	for i := range namespaces {
		c.namespaces = append(c.namespaces, &corev1.Namespace{
			TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, ObjectMeta: meta("", fmt.Sprintf("ns-%d", i)),
		})
	}
	for i := range n {
		c.add(serviceSpace(i), serviceName(i), clusterIP(i).String(), endpoints)
	}
	for _, n := range []int{10, 100, 1000} {
		c.add("ns-0", fmt.Sprintf("headless-%d", n), corev1.ClusterIPNone, n)
	}
	return c
}

func serviceSpace(i int) string { return fmt.Sprintf("ns-%d", i%namespaces) }
func serviceName(i int) string  { return fmt.Sprintf("service-%d", i) }
func clusterIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 96, byte(1 + i/250), byte(1 + i%250)})
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1", UID: "00000000-0000-0000-0000-000000000000"}
}

// add makes a service and its slices of at most a hundred endpoints.
func (c *cluster) add(namespace, name, ip string, pods int) {
	port := int32(8080)
	portName, tcp, ready := "http", corev1.ProtocolTCP, true
	c.services = append(c.services, &corev1.Service{
		TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: meta(namespace, name),
		Spec: corev1.ServiceSpec{
			ClusterIP: ip, ClusterIPs: []string{ip}, Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Name: portName, Protocol: tcp, Port: 80}},
		},
	})
	for first := 0; first < pods; first += 100 {
		slice := &discoveryv1.EndpointSlice{
			TypeMeta:    metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
			ObjectMeta:  meta(namespace, fmt.Sprintf("%s-%d", name, first/100)),
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: &portName, Protocol: &tcp, Port: &port}},
		}
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: name}
		for range min(pods-first, 100) {
			c.pods++
			addr := netip.AddrFrom4([4]byte{10, 240 + byte(c.pods>>16), byte(c.pods >> 8), byte(c.pods)})
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{addr.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			})
		}
		c.slices = append(c.slices, slice)
	}
}

// objects lists everything for the API.
func (c *cluster) objects() []apistub.Object {
	var all []apistub.Object
	for _, o := range c.namespaces {
		all = append(all, o)
	}
	for _, o := range c.services {
		all = append(all, o)
	}
	for _, o := range c.slices {
		all = append(all, o)
	}
	return all
}

// write writes the cluster as a folder of manifests.
func (c *cluster) write(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("writing manifests: %w", err)
	}
	for _, file := range []struct {
		name  string
		items any
	}{{"namespaces", c.namespaces}, {"services", c.services}, {"slices", c.slices}} {
		list := map[string]any{"kind": "List", "apiVersion": "v1", "items": file.items}
		data, err := json.Marshal(list)
		if err != nil {
			return fmt.Errorf("writing manifests: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, file.name+".json"), data, 0o644); err != nil {
			return fmt.Errorf("writing manifests: %w", err)
		}
	}
	return nil
}
