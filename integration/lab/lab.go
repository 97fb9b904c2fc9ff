package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netns"
)

// Options say how a lab is run. The zero value is right for tests.
type Options struct {
	// Name of a lab that is to outlive this process; empty: one that doesn't.
	Name string
	// Dir holds the files of a lab with a name; default /run/NAME.
	Dir string
	// EchoBinary is the path of cmd/echo's binary, which then runs in each pod.
	// Empty: the echo servers are part of this process.
	EchoBinary string
}

// Lab is a running cluster. Its methods may be called concurrently.
type Lab struct {
	Topology Topology
	Dir      string // files of this lab: Corefiles, logs

	name  string
	hosts map[string]host

	mu       sync.Mutex
	closers  []io.Closer // echo servers and processes, in the order of their start
	released bool
}

// host is where a host of the lab is.
type host struct {
	Namespace string         // name
	ns        netns.NsHandle // open
	device    string         // of the router: the interface that leads there
}

var labs atomic.Uint32 // in this process

// New builds a lab. It needs root. What a crashed process left of its labs is
// removed first.
func New(ctx context.Context, t Topology, o Options) (*Lab, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("building a lab: needs root, for network namespaces")
	}
	if err := removeLeftovers(); err != nil {
		return nil, err
	}
	l := &Lab{Topology: t, Dir: o.Dir, name: o.Name, hosts: make(map[string]host)}
	if err := l.prepare(); err != nil {
		return nil, err
	}
	if err := l.build(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("building lab %q: %w", l.name, err), l.Close())
	}
	return l, nil
}

// prepare settles the name and the folder.
func (l *Lab) prepare() error {
	if l.name == "" {
		l.name = fmt.Sprintf("signpost-%d.%d", os.Getpid(), labs.Add(1))
		dir, err := os.MkdirTemp("", l.name+"-")
		if err != nil {
			return fmt.Errorf("making the lab's folder: %w", err)
		}
		l.Dir = dir
		return nil
	}
	if have, err := namespaces(l.name + "-"); err != nil || len(have) > 0 {
		return errors.Join(err, fmt.Errorf("building lab %q: it is running already", l.name))
	}
	if l.Dir == "" {
		l.Dir = dirOf(l.name)
	}
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return fmt.Errorf("making the lab's folder: %w", err)
	}
	return nil
}

func dirOf(name string) string { return filepath.Join("/run", name) }

func (l *Lab) build(ctx context.Context, o Options) error {
	steps := []func() error{l.createHosts, l.connectHosts, l.routeAll, l.writeHosts}
	for _, step := range steps {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	for _, p := range l.Topology.Pods {
		if err := l.startEcho(ctx, p, o.EchoBinary); err != nil {
			return fmt.Errorf("starting the echo server of %q: %w", p.Name, err)
		}
	}
	return nil
}

func (l *Lab) createHosts() error {
	if err := l.createHost(Router, true); err != nil {
		return err
	}
	for _, n := range l.Topology.Nodes {
		if err := l.createHost(n.Name, true); err != nil {
			return err
		}
	}
	for _, h := range l.Topology.Outside {
		if err := l.createHost(h.Name, false); err != nil {
			return err
		}
	}
	for _, p := range l.Topology.Pods {
		if p.HostNetwork {
			l.hosts[p.Name] = l.hosts[p.Node]
		} else if err := l.createHost(p.Name, false); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) createHost(name string, forwards bool) error {
	h := host{Namespace: l.name + "-" + name}
	var err error
	if h.ns, err = createNamespace(h.Namespace); err != nil {
		return err
	}
	l.hosts[name] = h
	if err := setUpHost(h.ns, l.Topology.has6(), forwards); err != nil {
		return fmt.Errorf("setting host %q up: %w", name, err)
	}
	return nil
}

func (l *Lab) connectHosts() error {
	var id uint16
	connect := func(near, nearName, far string, addrs, source []netip.Addr) error {
		id++
		pair := link{near: end{l.hosts[near].ns, nearName}, far: end{l.hosts[far].ns, "eth0"}, id: id, addrs: addrs, source: source}
		if err := pair.connect(); err != nil {
			return fmt.Errorf("connecting %q to %q: %w", far, near, err)
		}
		return nil
	}
	for i, h := range l.onRouter() {
		device := fmt.Sprintf("link%d", i)
		if err := connect(Router, device, h.Name, h.Addrs, nil); err != nil {
			return err
		}
		there := l.hosts[h.Name]
		there.device = device
		l.hosts[h.Name] = there
	}
	onNode := map[string]int{}
	for _, p := range l.Topology.Pods {
		if p.HostNetwork {
			l.hosts[p.Name] = l.hosts[p.Node]
			continue
		}
		device := fmt.Sprintf("%s%d", PodInterfaces, onNode[p.Node])
		onNode[p.Node]++
		if err := connect(p.Node, device, p.Name, p.Addrs, l.Topology.node(p.Node).Addrs); err != nil {
			return err
		}
	}
	return nil
}

// onRouter lists the hosts that have a link to the router.
func (l *Lab) onRouter() []Host {
	var list []Host
	for _, n := range l.Topology.Nodes {
		list = append(list, Host(n))
	}
	return append(list, l.Topology.Outside...)
}

func (t Topology) node(name string) Node {
	i := slices.IndexFunc(t.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Node{}
	}
	return t.Nodes[i]
}

func (l *Lab) routeAll() error {
	for _, p := range l.Topology.Pods {
		if p.HostNetwork {
			continue
		}
		for _, a := range p.Addrs {
			if err := l.Route(netip.PrefixFrom(a, a.BitLen()), p.Node); err != nil {
				return err
			}
		}
	}
	for _, r := range l.Topology.Routes {
		if err := l.Route(r.To, r.Node); err != nil {
			return err
		}
	}
	return nil
}

// Route makes the router send what goes to a prefix to a node, instead of
// where it went before.
func (l *Lab) Route(to netip.Prefix, node string) error {
	via := first(l.Topology.node(node).Addrs, to.Addr().Is6())
	if !via.IsValid() {
		return fmt.Errorf("routing %s to %q: there is no such node, or it has no address of that family", to, node)
	}
	return routeVia(l.hosts[Router].ns, l.hosts[node].device, to, via)
}

// hostsFile lists the hosts of a lab that has a name, for [Open].
const hostsFile = "hosts.json"

func (l *Lab) writeHosts() error {
	text, err := json.Marshal(l.hosts)
	if err != nil {
		return fmt.Errorf("listing the hosts: %w", err)
	}
	if err := os.WriteFile(filepath.Join(l.Dir, hostsFile), text, 0o644); err != nil {
		return fmt.Errorf("listing the hosts: %w", err)
	}
	return nil
}

// Hosts returns the names of all hosts, sorted.
func (l *Lab) Hosts() []string {
	var list []string
	for name := range l.hosts {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (l *Lab) host(name string) (host, error) {
	h, ok := l.hosts[name]
	if !ok {
		return h, fmt.Errorf("finding host %q: there are %s", name, strings.Join(l.Hosts(), ", "))
	}
	return h, nil
}
