package nftables

import (
	"context"
	"encoding/binary"
	"net/netip"

	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// look reads the table. It is usable if its sets and base chains have the
// shape that this version makes; otherwise, and if there is no table, the
// contents are empty.
func look(ctx context.Context, kernel *ruleset.Conn) (found *contents, usable bool, err error) {
	raw, err := kernel.Look(ctx, skeleton(&vip.Node{}, false))
	if err != nil {
		return nil, false, err
	}
	found = newContents()
	found.generation, found.chains = raw.Generation, raw.Chains
	for _, e := range raw.Elements {
		found.note(e)
	}
	found.order()
	return found, raw.Usable, nil
}

// note enters an element with the frontend that it belongs to, or among those
// that have none.
func (c *contents) note(e ruleset.Element) {
	if f, ok := frontendIn(e); ok {
		c.entry(f).own = append(c.entry(f).own, e)
	} else {
		c.shared[e.Slot()] = true
	}
}

func (c *contents) entry(f vip.Frontend) *entry {
	if c.entries[f] == nil {
		c.entries[f] = &entry{}
	}
	return c.entries[f]
}

// order rebuilds the layouts from the endpoint maps.
func (c *contents) order() {
	for _, e := range c.entries {
		cluster, local := map[uint32]netip.AddrPort{}, map[uint32]netip.AddrPort{}
		for _, el := range e.own {
			switch s := setsOf[el.Set.Family]; el.Set {
			case s.endpoints:
				place(el, cluster)
			case s.localEndpoints:
				place(el, local)
			}
		}
		e.layout = layout{placed(cluster), placed(local)}
	}
}

// place notes at which index an element of an endpoint map stands.
func place(e ruleset.Element, at map[uint32]netip.AddrPort) {
	if ap, ok := parseEndpoint(e.Set.Family, e.Value); ok && len(e.Key) >= 4 {
		at[binary.NativeEndian.Uint32([]byte(e.Key[len(e.Key)-4:]))] = ap
	}
}

// frontendIn returns the frontend that an element belongs to, if it belongs to one.
func frontendIn(e ruleset.Element) (vip.Frontend, bool) {
	f := e.Set.Family
	s := setsOf[f]
	switch e.Set {
	case s.clusterIPs, s.hairpin, s.ports, s.nodePortAddrs:
		return vip.Frontend{}, false
	case s.nodePorts:
		return parseProtocolPort(vip.NodePortFrontend(f == ruleset.IPv6, 0, 0).Addr, e.Key)
	default:
		return parseFrontend(f, e.Key)
	}
}
