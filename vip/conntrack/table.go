package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"github.com/ti-mo/conntrack"
	"github.com/ti-mo/netfilter"
	"golang.org/x/sys/unix"
)

// Table is a connection tracking table.
type Table interface {
	// UDP lists the UDP entries of both families.
	UDP(ctx context.Context) ([]Flow, error)
	// Delete removes an entry; one that is not there any more is no error.
	Delete(ctx context.Context, f Flow) error
}

// Kernel is the table of the network namespace of the calling thread. It needs
// CAP_NET_ADMIN.
type Kernel struct{}

// UDP implements [Table].
func (Kernel) UDP(ctx context.Context) ([]Flow, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	var flows []Flow
	for _, family := range []netfilter.ProtoFamily{netfilter.ProtoIPv4, netfilter.ProtoIPv6} {
		entries, err := conn.DumpFilter(conntrack.NewFilter().Family(family), nil)
		if err != nil {
			return nil, fmt.Errorf("reading the connection tracking table: %w", err)
		}
		for _, e := range entries {
			if e.TupleOrig.Proto.Protocol == unix.IPPROTO_UDP {
				flows = append(flows, fromEntry(e))
			}
		}
	}
	return flows, nil
}

// Delete implements [Table].
func (Kernel) Delete(ctx context.Context, f Flow) error {
	entry, ok := f.raw.(conntrack.Flow)
	if !ok {
		return fmt.Errorf("deleting the flow to %s: it is not from this table", f.Destination)
	}
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.Delete(entry); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("deleting the flow from %s to %s: %w", f.Client, f.Destination, err)
	}
	return nil
}

func fromEntry(e conntrack.Flow) Flow {
	return Flow{
		Client:      source(e.TupleOrig),
		Destination: netip.AddrPortFrom(e.TupleOrig.IP.DestinationAddress, e.TupleOrig.Proto.DestinationPort),
		ReplySource: source(e.TupleReply),
		// Only what identifies the entry: its counters and timeout go on changing.
		raw: conntrack.Flow{ID: e.ID, Zone: e.Zone, TupleOrig: e.TupleOrig, TupleReply: e.TupleReply},
	}
}

func source(t conntrack.Tuple) netip.AddrPort {
	return netip.AddrPortFrom(t.IP.SourceAddress, t.Proto.SourcePort)
}

func dial(ctx context.Context) (*conntrack.Conn, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	conn, err := conntrack.Dial(&netlink.Config{})
	if err != nil {
		return nil, fmt.Errorf("opening the connection tracking table: %w", err)
	}
	return conn, nil
}
