package lab

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	kyaml "sigs.k8s.io/yaml"
)

// FromManifests makes the topology that a folder of manifests talks about: its
// nodes, its pods, a server for each other address in hand-written endpoints
// (on the first node; as part of a node if it is a node's address), and two
// clients outside, "outside" and "outside-2". What is not understood is left
// out: whether manifests are right is signpost's to say.
func FromManifests(dir string) (Topology, error) {
	found := &findings{servers: make(map[netip.Addr]*server)}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return err
		}
		return found.file(path)
	})
	if err != nil {
		return Topology{}, fmt.Errorf("reading manifests: %w", err)
	}
	if len(found.nodes) == 0 {
		return Topology{}, fmt.Errorf("reading manifests: %q describes no node with an address", dir)
	}
	return found.topology(), nil
}

// findings are what was read so far.
type findings struct {
	nodes   []Node
	pods    []Pod
	servers map[netip.Addr]*server // of hand-written endpoints
}

type server struct {
	name  string
	ports []uint16
}

func (f *findings) file(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	documents := yaml.NewYAMLReader(bufio.NewReader(file))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %q: %w", path, err)
		}
		f.document(text)
	}
}

func (f *findings) document(text []byte) {
	var kind struct{ Kind string }
	if kyaml.Unmarshal(text, &kind) != nil {
		return
	}
	switch kind.Kind {
	case "Node":
		decode(text, f.node)
	case "Pod":
		decode(text, f.pod)
	case "Endpoints":
		decode(text, f.endpoints)
	case "EndpointSlice":
		decode(text, f.slice)
	}
}

func decode[T any](text []byte, use func(*T)) {
	object := new(T)
	if kyaml.Unmarshal(text, object) == nil {
		use(object)
	}
}

func (f *findings) node(n *corev1.Node) {
	made := Node{Name: n.Name}
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			made.Addrs = append(made.Addrs, addr)
		}
	}
	if len(made.Addrs) > 0 {
		f.nodes = append(f.nodes, made)
	}
}

func (f *findings) pod(p *corev1.Pod) {
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	made := Pod{Name: p.Name, Node: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork}
	for _, ip := range p.Status.PodIPs {
		made.Addrs = appendAddr(made.Addrs, ip.IP)
	}
	made.Addrs = appendAddr(made.Addrs, p.Status.PodIP)
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			made.Ports = appendNew(made.Ports, uint16(port.ContainerPort))
		}
	}
	if !over && len(made.Addrs) > 0 {
		f.pods = append(f.pods, made)
	}
}

func appendAddr(list []netip.Addr, text string) []netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return list
	}
	return appendNew(list, a)
}

func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

func (f *findings) endpoints(e *corev1.Endpoints) { //nolint:staticcheck // people still write them
	for _, subset := range e.Subsets {
		for _, port := range subset.Ports {
			for _, a := range append(subset.Addresses, subset.NotReadyAddresses...) {
				f.serve(e.Name, a.IP, port.Port)
			}
		}
	}
}

func (f *findings) slice(s *discoveryv1.EndpointSlice) {
	for _, port := range s.Ports {
		for _, e := range s.Endpoints {
			for _, a := range e.Addresses {
				if port.Port != nil {
					f.serve(s.Name, a, *port.Port)
				}
			}
		}
	}
}

func (f *findings) serve(name, address string, port int32) {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return
	}
	if f.servers[a] == nil {
		f.servers[a] = &server{name: name}
	}
	f.servers[a].ports = appendNew(f.servers[a].ports, uint16(port))
}

func (f *findings) topology() Topology {
	t := Topology{
		Nodes: f.nodes,
		Outside: []Host{
			{Name: "outside", Addrs: addrs("198.51.100.10")},
			{Name: "outside-2", Addrs: addrs("203.0.113.7")},
		},
		Routes: Default(false).Routes,
	}
	for i := range t.Routes {
		t.Routes[i].Node = t.Nodes[0].Name
	}
	names := map[string]int{}
	add := func(p Pod) {
		if names[p.Name]++; names[p.Name] > 1 {
			p.Name = fmt.Sprintf("%s-%d", p.Name, names[p.Name])
		}
		if t.node(p.Node).Name == "" || p.check(map[string]Node{p.Node: t.node(p.Node)}) != nil {
			return // nobody could reach it
		}
		t.Pods = append(t.Pods, p)
	}
	taken := map[netip.Addr]bool{}
	for _, p := range f.pods {
		p.Addrs = slices.DeleteFunc(p.Addrs, func(a netip.Addr) bool { return taken[a] && !p.HostNetwork })
		for _, a := range p.Addrs {
			taken[a] = true
		}
		add(p)
	}
	for _, a := range slices.SortedFunc(maps.Keys(f.servers), netip.Addr.Compare) {
		if s := f.servers[a]; !taken[a] {
			add(f.server(a, s))
		}
	}
	slices.SortStableFunc(t.Pods, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	return t
}

func (f *findings) server(a netip.Addr, s *server) Pod {
	made := Pod{Name: strings.ToLower(s.name) + "-endpoint", Node: f.nodes[0].Name, Addrs: []netip.Addr{a}, Ports: s.ports}
	for _, n := range f.nodes {
		if slices.Contains(n.Addrs, a) {
			made.Node, made.HostNetwork = n.Name, true
		}
	}
	return made
}
