package userspace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"signpost/discovery"
	"signpost/vip"
)

// server is one frontend at work. Only Apply, Cleanup and Close call its
// methods; the data path reads what is atomic.
type server struct {
	b        *Backend
	frontend vip.Frontend
	current  atomic.Pointer[vip.VirtualServer]
	choose   *chooser
	sockets  map[netip.Addr]socket
}

// socket is what a server has on one address.
type socket interface {
	// refresh adapts to what changed in the virtual server or the node.
	refresh()
	close()
}

var errSCTP = errors.New("SCTP can't be proxied in userspace: use mode nftables, iptables or ipvs")

func newServer(b *Backend, f vip.Frontend) *server {
	s := &server{b: b, frontend: f, choose: newChooser(b.cfg.MaxClients), sockets: make(map[netip.Addr]socket)}
	if !f.IsNodePort() {
		b.addrs.use(f.Addr)
	}
	return s
}

// set makes the server do what v says. What was established stays; after an
// error the server does as much of v as it could.
func (s *server) set(v *vip.VirtualServer) error {
	s.current.Store(v)
	if v.Affinity == 0 {
		s.choose.sticky.clear()
	}
	want := s.listenAddrs(v)
	for addr, socket := range s.sockets {
		if slices.Contains(want, addr) {
			socket.refresh()
		} else {
			socket.close()
			delete(s.sockets, addr)
		}
	}
	var failed []error
	for _, addr := range want {
		if _, ok := s.sockets[addr]; !ok {
			failed = append(failed, s.listen(addr))
		}
	}
	if !s.frontend.IsNodePort() { // reachable only now that the listener is there
		failed = append(failed, s.b.addrs.ensure(s.frontend.Addr))
	}
	return errors.Join(failed...)
}

// listenAddrs are the addresses to listen on: none if all are to be refused.
func (s *server) listenAddrs(v *vip.VirtualServer) []netip.Addr {
	switch {
	case refusesAll(v):
		return nil
	case s.frontend.IsNodePort():
		return s.nodePortAddrs()
	}
	return []netip.Addr{s.frontend.Addr}
}

// nodePortAddrs are the node port addresses of the family, without those where
// another frontend has the port, or a service all ports.
func (s *server) nodePortAddrs() []netip.Addr {
	var list []netip.Addr
	for _, a := range s.b.node.Load().NodePortAddrs {
		there := vip.Frontend{Addr: a, Port: s.frontend.Port, Protocol: s.frontend.Protocol}
		if a.Is6() == s.frontend.Is6() && s.b.want.Get(there) == nil && !s.b.want.Kinds(a).Captured() {
			list = append(list, a)
		}
	}
	return list
}

func (s *server) listen(addr netip.Addr) error {
	at := netip.AddrPortFrom(addr, s.frontend.Port)
	var (
		opened socket
		err    error
	)
	if s.frontend.Protocol == discovery.UDP {
		opened, err = s.listenUDP(at)
	} else {
		opened, err = s.listenTCP(at)
	}
	if err != nil {
		return fmt.Errorf("opening %s/%s: %w", at, s.frontend.Protocol, explain(err))
	}
	s.sockets[addr] = opened
	return nil
}

// explain puts the remedy in front of an error that only names the symptom.
func explain(err error) error {
	for _, known := range []struct {
		is   error
		says string
	}{
		{unix.EADDRINUSE, "the port is taken by another socket on this machine, perhaps one on the unspecified address"},
		{unix.EADDRNOTAVAIL, "the address is not one of this machine's any more"},
		{unix.EACCES, "a port below net.ipv4.ip_unprivileged_port_start needs CAP_NET_BIND_SERVICE"},
		{unix.EMFILE, "the process's file limit is too low for so many frontends"},
	} {
		if errors.Is(err, known.is) {
			return fmt.Errorf("%s: %w", known.says, err)
		}
	}
	return err
}

// prepare is for net.ListenConfig.Control. A virtual address may be bound
// before it is local; a node port's address has to be local already.
func (s *server) prepare(network, _ string, c syscall.RawConn) error {
	if s.frontend.IsNodePort() {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
		if s.frontend.Is6() {
			level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
		}
		failed = unix.SetsockoptInt(int(fd), level, option, 1)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("preparing a %s socket: %w", network, err)
	}
	return nil
}

// stop closes the listeners and ends the UDP sessions. Established TCP
// connections live on.
func (s *server) stop() {
	for addr, socket := range s.sockets {
		socket.close()
		delete(s.sockets, addr)
	}
	if !s.frontend.IsNodePort() {
		s.b.release(s.frontend.Addr)
	}
}

// release gives an address back. What is left of it the next sweep removes.
func (b *Backend) release(addr netip.Addr) {
	if err := b.addrs.release(addr); err != nil {
		b.log.Warn("keeping a route until the next look", "address", addr, "err", err)
	}
}
