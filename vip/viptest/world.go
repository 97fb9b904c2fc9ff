package viptest

import (
	"fmt"
	"strings"

	"signpost/discovery"
	"signpost/vip"
)

// World is a cluster as one node sees it.
type World struct {
	Node     *vip.Node
	Snapshot *discovery.Snapshot
}

// ParseWorld reads a world from text, one object a line:
//
//	node NAME zone=Z addrs=A,B nodeports=A pods=CIDR iface=PREFIX services=CIDR peers=A masquerade-all
//	service NS/NAME type=LoadBalancer ips=A,B ports=NAME:80/UDP->30080,:443 external=A lb=A ranges=CIDR,CIDR
//	        etp=Local itp=Local affinity=1h hc=32000 created=2026-01-02T03:04:05Z proxy=NAME scheduler=NAME headless
//	slice NAME ports=NAME:8080/TCP trigger=2026-01-02T03:04:05Z
//	endpoint ADDR node=NAME zone=Z zones=Z,Z nodes=N,N pod=NAME notready serving terminating
//
// A slice belongs to the service above it, an endpoint to the slice. A line
// that begins with a blank continues the one before, "#" begins a comment.
// "ranges" without a value is a list in which nothing is usable. An endpoint is
// ready and serving unless it says otherwise; "terminating" makes it not ready.
func ParseWorld(text string) (World, error) {
	p := parser{world: World{Node: &vip.Node{}}}
	joined := strings.NewReplacer("\n ", " ", "\n\t", " ").Replace(text)
	for line := range strings.Lines(joined) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if words := strings.Fields(line); len(words) > 0 {
			if err := p.line(words); err != nil {
				return World{}, fmt.Errorf("parsing %q: %w", line, err)
			}
		}
	}
	store := discovery.NewStore()
	p.world.Snapshot = store.Update(func(tx *discovery.Tx) {
		for _, s := range p.services {
			tx.PutService(s)
		}
		tx.MarkSynced()
	})
	return p.world, nil
}

type parser struct {
	world    World
	services []*discovery.Service
}

func (p *parser) line(words []string) error {
	set, err := p.object(words)
	if err != nil {
		return err
	}
	for _, word := range words[min(2, len(words)):] {
		key, value, _ := strings.Cut(word, "=")
		if err := set(key, value); err != nil {
			return fmt.Errorf("reading %q: %w", word, err)
		}
	}
	return nil
}

// setter sets one field of an object.
type setter func(key, value string) error

func (p *parser) object(words []string) (setter, error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("a kind and a name are wanted")
	}
	kind, name := words[0], words[1]
	switch {
	case kind == "node":
		p.world.Node.Name = name
		return nodeFields(p.world.Node), nil
	case kind == "service":
		s := &discovery.Service{}
		s.Key.Namespace, s.Key.Name, _ = strings.Cut(name, "/")
		p.services = append(p.services, s)
		return serviceFields(s), nil
	case len(p.services) == 0:
		return nil, fmt.Errorf("a service has to come first")
	}
	service := p.services[len(p.services)-1]
	if kind == "slice" {
		slice := &discovery.Slice{Name: name}
		service.Slices = append(service.Slices, slice)
		return sliceFields(slice), nil
	}
	if kind != "endpoint" || len(service.Slices) == 0 {
		return nil, fmt.Errorf("an endpoint of a slice, or a node, service or slice is wanted")
	}
	return endpointFields(service.Slices[len(service.Slices)-1], name)
}
