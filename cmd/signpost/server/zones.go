package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"syscall"

	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/dataplane"
	"signpost/discovery"
	"signpost/dnsserver"
)

// zones are the server blocks, and the cluster zones in them.
type zones struct {
	part
	clusters []*dnsserver.Cluster
	blocks   []dnsserver.Block
	notify   []func(context.Context) // tell others of changes until the context ends
}

// newZones makes the blocks over the store that DNS answers from, and reports
// what is wrong with each of them.
func newZones(config *corefile.Config, store *discovery.Store, log *slog.Logger) (*zones, error) {
	z := &zones{}
	var errs corefile.Errors
	for _, s := range config.Servers {
		blocks, err := z.server(s, store, log)
		if err == nil {
			// Only built, to see whether it can be: the error is this block's.
			_, err = dnsserver.New(dnsserver.Config{Blocks: blocks})
		}
		if err != nil {
			errs = append(errs, s.Errorf(s.Addresses[0].String(), "%v", err)...)
			continue
		}
		z.blocks = append(z.blocks, blocks...)
	}
	if len(errs) > 0 {
		return z, errs
	}
	return z, nil
}

// server makes the blocks of one server block: one for each port and transport.
func (z *zones) server(s *corefile.Server, store *discovery.Store, log *slog.Logger) ([]dnsserver.Block, error) {
	hosts, err := bindAddrs(s, systemAddrs)
	if err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	base := s.Block
	if base.TLS, err = loadTLS(s.TLS); err != nil {
		return nil, err
	}
	if s.Cluster != nil {
		if base.Cluster, err = z.cluster(s, hosts, store, log); err != nil {
			return nil, fmt.Errorf("kubernetes: %w", err)
		}
	}
	var blocks []dnsserver.Block
	at := map[corefile.Address]int{} // by all but the zone: which of blocks
	for _, a := range s.Addresses {
		place := corefile.Address{Transport: a.Transport, Port: a.Port}
		i, seen := at[place]
		if !seen {
			i, at[place] = len(blocks), len(blocks)
			blocks = append(blocks, base)
			blocks[i].Transport = a.Transport
			for _, host := range hosts {
				blocks[i].Listen = append(blocks[i].Listen, listenAddr(host, a.Port))
			}
		}
		blocks[i].Zones = append(blocks[i].Zones, a.Zone)
	}
	return blocks, nil
}

func (z *zones) cluster(s *corefile.Server, hosts []string, store *discovery.Store, log *slog.Logger) (*dnsserver.Cluster, error) {
	settings := s.Cluster.DNS
	settings.Addrs = func() []netip.Addr { return ownAddrs(hosts) }
	settings.RecursionAvailable = len(s.Block.Forwards) > 0
	settings.Resolve = dnsserver.Resolve
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	c := dnsserver.NewCluster(settings, store, log.With("part", "dns"))
	z.clusters = append(z.clusters, c)
	if len(s.Block.Transfers) > 0 {
		z.notify = append(z.notify, func(ctx context.Context) { c.Notify(ctx, s.Block.Transfers) })
	}
	return c, nil
}

// ownAddrs are the addresses under which clients reach a block (T4).
func ownAddrs(hosts []string) []netip.Addr {
	var addrs []netip.Addr
	for _, host := range hosts {
		if addr, err := netip.ParseAddr(host); err == nil && !addr.IsUnspecified() {
			addrs = append(addrs, addr)
			continue
		}
		local, err := dataplane.LocalAddrs()
		if err != nil {
			continue // the answer is only poorer for it
		}
		for _, a := range local {
			if !a.IsLinkLocalUnicast() {
				addrs = append(addrs, a)
			}
		}
	}
	return addrs
}

// dnsConfig is what the DNS server runs with.
func (s *Server) dnsConfig(g *generation) dnsserver.Config {
	return dnsserver.Config{Blocks: g.zones.blocks, Log: s.log.With("part", "dns"), Registerer: s.registry, Fail: s.fail}
}

func (z *zones) start() {
	loops := slices.Clone(z.notify)
	for _, c := range z.clusters {
		loops = append(loops, func(ctx context.Context) { _ = c.Run(ctx) }) // it has no error but the context's
	}
	z.run(loops...)
}

// taken adds the way out to the error of a port that another program has.
func taken(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: another program has the port: give the server block another one in its key, "+
			"or leave the port out of the key and start with -dns.port", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: ports below 1024 need root or CAP_NET_BIND_SERVICE: give the server block another one "+
			"in its key, or leave the port out of the key and start with -dns.port", err)
	default:
		return err
	}
}
