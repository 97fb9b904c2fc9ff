package echo

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// listenSCTP makes a one-to-one SCTP listener. The net package takes it for a
// TCP one, which for accepting, reading and writing makes no difference.
func listenSCTP(at netip.AddrPort) (net.Listener, error) {
	file, err := socketSCTP(at.Addr().Is6())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := unix.Bind(int(file.Fd()), sockaddr(at)); err != nil {
		return nil, fmt.Errorf("binding sctp %s: %w", at, err)
	}
	if err := unix.Listen(int(file.Fd()), unix.SOMAXCONN); err != nil {
		return nil, fmt.Errorf("listening on sctp %s: %w", at, err)
	}
	return net.FileListener(file)
}

func socketSCTP(v6 bool) (*os.File, error) {
	family := unix.AF_INET
	if v6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		return nil, fmt.Errorf("opening an SCTP socket: does the kernel have SCTP? %w", err)
	}
	return os.NewFile(uintptr(fd), "sctp"), nil
}

// DialSCTP connects to an echo server over SCTP, from the network namespace of
// the calling thread.
func DialSCTP(to netip.AddrPort) (net.Conn, error) {
	file, err := socketSCTP(to.Addr().Is6())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	limit := unix.Timeval{Sec: 2}
	if err := unix.SetsockoptTimeval(int(file.Fd()), unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return nil, fmt.Errorf("limiting the time to connect: %w", err)
	}
	if err := unix.Connect(int(file.Fd()), sockaddr(to)); err != nil {
		return nil, fmt.Errorf("connecting to sctp %s: %w", to, err)
	}
	return net.FileConn(file)
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is6() {
		return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}
