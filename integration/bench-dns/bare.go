package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// bareLoop reads datagrams and sends each back as a response of a size, one
// system call for each, one socket for each core: the least that a server can
// do. It ends with the process.
func bareLoop(addr string, size int) error {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		return errors.Join(err, failed)
	}}
	failed := make(chan error)
	for range runtime.GOMAXPROCS(0) {
		conn, err := lc.ListenPacket(context.Background(), "udp4", addr)
		if err != nil {
			return fmt.Errorf("listening on %q: %w", addr, err)
		}
		udp := conn.(*net.UDPConn)
		_ = udp.SetReadBuffer(1 << 20) // the kernel's limit may be lower
		go func() { failed <- reflect(udp, size) }()
	}
	return <-failed
}

// reflect sends back what it reads, with anything behind it up to the size.
func reflect(conn *net.UDPConn, size int) error {
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		buf[2] |= 0x80 // QR: a response
		if _, err := conn.WriteToUDPAddrPort(buf[:max(n, size)], from); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
}

// serveUpstream is everyone else's DNS: one address for every name, good for an
// hour. It returns its address.
func serveUpstream() (addr string, stop func(), err error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return "", nil, fmt.Errorf("serving the upstream: %w", err)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort(upstreamReply(buf[:n]), from) // the client asks again
		}
	}()
	return conn.LocalAddr().String(), func() { _ = conn.Close() }, nil
}

// upstreamReply answers a question with 192.0.2.1, whatever it is.
func upstreamReply(req []byte) []byte {
	end := 12
	for end < len(req) && req[end] != 0 {
		end += 1 + int(req[end])
	}
	end += 5
	if end > len(req) {
		return nil
	}
	reply := append([]byte(nil), req[:end]...)
	reply[2], reply[3] = 0x81, 0x80             // QR RD RA
	copy(reply[6:12], []byte{0, 1, 0, 0, 0, 0}) // one answer
	return append(reply, 0xC0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4, 192, 0, 2, 1)
}
