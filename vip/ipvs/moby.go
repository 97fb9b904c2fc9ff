package ipvs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"net"
	"net/netip"
	"time"

	moby "github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"signpost/discovery"
	"signpost/vip"
)

const (
	// callTimeout bounds one request: the library itself waits for ever.
	callTimeout = 5 * time.Second
	// tries is how often a request is made that a signal interrupted (I-15).
	tries = 5
)

// netlinkKernel speaks to the kernel by moby/ipvs, which takes one request at
// a time and has no limit to how long it waits. A request that takes too long
// has its socket closed under it; the next one opens another (B07, X06).
type netlinkKernel struct {
	handle *moby.Handle
	old    *oldInterface // for looking at IPv4 servers, which it does at a tenth of the cost
}

// openKernel opens a socket in the calling thread's network namespace. The
// library asks once per process for IPVS's number and then goes on without it,
// talking to nobody (I-01): so we ask first.
func openKernel() (*netlinkKernel, error) {
	if _, err := netlink.GenlFamilyGet("IPVS"); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, errors.New("this kernel has no IPVS (module ip_vs)")
		}
		return nil, fmt.Errorf("asking the kernel for IPVS: %w", err)
	}
	handle, err := moby.New("")
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	return &netlinkKernel{handle: handle, old: openOldInterface()}, nil
}

func (k *netlinkKernel) close() {
	k.handle.Close()
	k.old.close()
}

// do runs one request within the time that it may take.
func (k *netlinkKernel) do(ctx context.Context, request func(*moby.Handle) error) error {
	var err error
	for range tries {
		if ctx.Err() != nil {
			return fmt.Errorf("asking IPVS: %w", context.Cause(ctx))
		}
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		stop := context.AfterFunc(limited, k.handle.Close)
		err = request(k.handle)
		late := !stop()
		cancel()
		if late {
			return fmt.Errorf("asking IPVS: no answer in time: %w", unix.ETIMEDOUT)
		}
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return err
}

func (k *netlinkKernel) servers(ctx context.Context) ([]listed, error) {
	var list []listed
	err := k.do(ctx, func(h *moby.Handle) error {
		services, err := h.GetServices()
		list = list[:0]
		for _, s := range services {
			if l, ok := fromService(s); ok {
				list = append(list, l)
			}
		}
		return err //nolint:wrapcheck // below
	})
	if err != nil {
		return nil, fmt.Errorf("listing IPVS servers: %w", err)
	}
	return list, nil
}

// summaries lists the IPv4 servers, but not where the kernel's older interface
// can't be had: then it says so.
func (k *netlinkKernel) summaries(n int) (iter.Seq[summary], bool, error) {
	if k.old.fd < 0 {
		return nil, false, nil
	}
	list, err := k.old.summaries(n)
	return list, true, err
}

func (k *netlinkKernel) destinations(ctx context.Context, key serverKey) ([]destination, error) {
	if k.old.knows(key) && ctx.Err() == nil {
		list, err := k.old.destinations(key)
		if errors.Is(err, unix.ESRCH) {
			err = nil // of a server that is not there, as netlink tells it
		}
		return list, err
	}
	var list []destination
	err := k.do(ctx, func(h *moby.Handle) error {
		found, err := h.GetDestinations(service(key, serverSpec{}))
		list = list[:0]
		for _, d := range found {
			if a, ok := netip.AddrFromSlice(d.Address); ok {
				list = append(list, destination{netip.AddrPortFrom(a, d.Port), d.Weight, d.ActiveConnections + d.InactiveConnections})
			}
		}
		return err //nolint:wrapcheck // below
	})
	if err != nil {
		return nil, fmt.Errorf("listing the destinations of IPVS server %s: %w", key, err)
	}
	return list, nil
}

func (k *netlinkKernel) addServer(ctx context.Context, key serverKey, spec serverSpec) error {
	return k.do(ctx, func(h *moby.Handle) error { return h.NewService(service(key, spec)) })
}

func (k *netlinkKernel) setServer(ctx context.Context, key serverKey, spec serverSpec) error {
	return k.do(ctx, func(h *moby.Handle) error { return h.UpdateService(service(key, spec)) })
}

func (k *netlinkKernel) deleteServer(ctx context.Context, key serverKey) error {
	return k.do(ctx, func(h *moby.Handle) error { return h.DelService(service(key, serverSpec{})) })
}

func (k *netlinkKernel) addDestination(ctx context.Context, key serverKey, to netip.AddrPort, weight int) error {
	return k.do(ctx, func(h *moby.Handle) error {
		return h.NewDestination(service(key, serverSpec{}), masquerading(to, weight))
	})
}

func (k *netlinkKernel) setDestination(ctx context.Context, key serverKey, to netip.AddrPort, weight int) error {
	return k.do(ctx, func(h *moby.Handle) error {
		return h.UpdateDestination(service(key, serverSpec{}), masquerading(to, weight))
	})
}

func (k *netlinkKernel) deleteDestination(ctx context.Context, key serverKey, to netip.AddrPort) error {
	return k.do(ctx, func(h *moby.Handle) error { return h.DelDestination(service(key, serverSpec{}), masquerading(to, 0)) })
}

// Flags of an IPVS server (include/uapi/linux/ip_vs.h).
const (
	flagPersistent = 0x1
	flagHashed     = 0x2 // set by the kernel
	flagSched1     = 0x8
	flagSched2     = 0x10
)

var families = map[bool]uint16{false: unix.AF_INET, true: unix.AF_INET6}

func service(key serverKey, spec serverSpec) *moby.Service {
	f := key.frontend
	s := &moby.Service{
		AddressFamily: families[f.Is6()], SchedName: spec.scheduler, Flags: spec.flags,
		FWMark: key.mark, Netmask: 1<<32 - 1,
	}
	if f.Is6() {
		s.Netmask = 128 // here it is the length of the prefix
	}
	if key.mark == 0 {
		s.Address, s.Port, s.Protocol = net.IP(f.Addr.AsSlice()), f.Port, uint16(protocolNumbers[f.Protocol])
	}
	if spec.affinity > 0 {
		s.Flags |= flagPersistent
		s.Timeout = uint32((spec.affinity + time.Second - 1) / time.Second)
	}
	return s
}

// fromService reads what service wrote; not ok: a protocol of which there are
// no frontends.
func fromService(s *moby.Service) (listed, bool) {
	l := listed{spec: serverSpec{scheduler: s.SchedName, flags: s.Flags &^ (flagPersistent | flagHashed)}}
	if s.Flags&flagPersistent != 0 {
		l.spec.affinity = time.Duration(s.Timeout) * time.Second
	}
	if s.FWMark != 0 {
		l.key = byMark(s.AddressFamily == unix.AF_INET6, s.FWMark)
		return l, true
	}
	addr, ok := netip.AddrFromSlice(s.Address)
	protocol, known := protocolOf(byte(s.Protocol))
	l.key.frontend = vip.Frontend{Addr: addr, Port: s.Port, Protocol: protocol}
	return l, ok && known && bits.Len16(s.Protocol) <= 8
}

func protocolOf(number byte) (discovery.Protocol, bool) {
	for p, n := range protocolNumbers {
		if n == number {
			return discovery.Protocol(p), true
		}
	}
	return 0, false
}

func masquerading(to netip.AddrPort, weight int) *moby.Destination {
	return &moby.Destination{
		Address: net.IP(to.Addr().AsSlice()), Port: to.Port(), Weight: weight,
		AddressFamily: families[to.Addr().Is6()], ConnectionFlags: moby.ConnectionFlagMasq,
	}
}
