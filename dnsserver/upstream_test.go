package dnsserver

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// scripted is an upstream that replies by a script to what it is asked. It has
// sockets and goroutines of its own, all of which have ended when its test has.
type scripted struct {
	addr     netip.AddrPort
	udp, tcp atomic.Int32 // how often it was asked
	conns    atomic.Int32 // connections accepted
	last     atomic.Pointer[dns.Msg]

	script  script
	running sync.WaitGroup
	mu      sync.Mutex
	open    map[io.Closer]struct{}
	closed  bool
}

// script returns the replies to a question, in order; none means silence.
type script = func(r *dns.Msg, tcp bool) []*dns.Msg

// newScripted starts an upstream for UDP and TCP.
func newScripted(t testing.TB, script script) *scripted {
	t.Helper()
	return newScriptedOver(t, func(l net.Listener) net.Listener { return l }, script)
}

// newScriptedOver starts one whose connections are something else than TCP.
func newScriptedOver(t testing.TB, wrap func(net.Listener) net.Listener, script script) *scripted {
	t.Helper()
	up := &scripted{script: script, open: map[io.Closer]struct{}{}}
	ln, pc := listenBoth(t)
	up.addr = ln.Addr().(*net.TCPAddr).AddrPort()
	ln = wrap(ln)
	up.keep(ln)
	up.keep(pc)
	up.running.Go(func() { up.serveUDP(pc) })
	up.running.Go(func() { up.acceptTCP(ln) })
	t.Cleanup(up.close)
	return up
}

// listenBoth finds a port that is free for UDP and TCP.
func listenBoth(t testing.TB) (net.Listener, net.PacketConn) {
	t.Helper()
	for {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		pc, err := net.ListenPacket("udp", ln.Addr().String())
		if err == nil {
			return ln, pc
		}
		_ = ln.Close()
		if !errors.Is(err, unix.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// keep notes something that close has to close; false means that it has
// already.
func (u *scripted) keep(c io.Closer) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		_ = c.Close()
		return false
	}
	u.open[c] = struct{}{}
	return true
}

// hangUp closes all connections, not the listeners.
func (u *scripted) hangUp() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.open {
		if conn, ok := c.(net.Conn); ok && conn.RemoteAddr() != nil {
			_ = conn.Close()
			delete(u.open, c)
		}
	}
}

func (u *scripted) close() {
	u.mu.Lock()
	u.closed = true
	for c := range u.open {
		_ = c.Close()
	}
	u.mu.Unlock()
	u.running.Wait()
}

// serveUDP answers each datagram in a goroutine: a script may wait.
func (u *scripted) serveUDP(pc net.PacketConn) {
	for {
		buf := make([]byte, 4096)
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		u.udp.Add(1)
		u.running.Go(func() {
			u.answer(buf[:n], false, func(wire []byte) { _, _ = pc.WriteTo(wire, from) })
		})
	}
}

func (u *scripted) acceptTCP(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		u.conns.Add(1)
		if u.keep(conn) {
			u.running.Go(func() { u.serveTCP(conn) })
		}
	}
}

// serveTCP answers the questions of a connection one after the other.
func (u *scripted) serveTCP(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for {
		var prefix [2]byte
		if _, err := io.ReadFull(conn, prefix[:]); err != nil {
			return
		}
		buf := make([]byte, binary.BigEndian.Uint16(prefix[:]))
		if _, err := io.ReadFull(conn, buf); err != nil {
			return
		}
		u.tcp.Add(1)
		u.answer(buf, true, func(wire []byte) { _, _ = conn.Write(frame(wire)) })
	}
}

// answer runs the script. What isn't a question is left alone.
func (u *scripted) answer(wire []byte, tcp bool, send func([]byte)) {
	r := new(dns.Msg)
	if r.Unpack(wire) != nil {
		return
	}
	u.last.Store(r)
	for _, m := range u.script(r, tcp) {
		if wire, err := m.Pack(); err == nil {
			send(wire)
		}
	}
}
