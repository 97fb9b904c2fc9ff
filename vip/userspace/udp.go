package userspace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"signpost/vip"
)

// udpSocket is the UDP socket of one address and its clients' sessions.
type udpSocket struct {
	s    *server
	at   netip.AddrPort
	conn *net.UDPConn
	in   *receiver

	mu       sync.Mutex
	sessions map[netip.AddrPort]*session
	closed   bool
}

func (s *server) listenUDP(at netip.AddrPort) (socket, error) {
	config := net.ListenConfig{Control: s.prepare}
	c, err := config.ListenPacket(s.b.ctx, "udp", at.String())
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	u := &udpSocket{s: s, at: at, conn: c.(*net.UDPConn), sessions: make(map[netip.AddrPort]*session)}
	if u.in, err = newReceiver(u.conn); err != nil {
		_ = u.conn.Close()
		return nil, err
	}
	s.b.running.Go(u.receive)
	return u, nil
}

// refresh cuts the sessions that would not be made again: their endpoint is
// gone (F-17), or their client may not come any more.
func (u *udpSocket) refresh() {
	v, n := u.s.current.Load(), u.s.b.node.Load()
	u.mu.Lock()
	defer u.mu.Unlock()
	for client, session := range u.sessions {
		verdict, set := n.judge(v, bare(client), u.at.Addr())
		if _, there := find(v.Endpoints(set), session.endpoint); verdict != serve || !there {
			u.drop(session)
		}
	}
}

func (u *udpSocket) close() {
	_ = u.conn.Close()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for _, session := range u.sessions {
		u.drop(session)
	}
}

// receive passes datagrams on until the socket is closed. Errors that the
// kernel reports on the socket (an earlier reply that could not be delivered)
// concern one datagram.
func (u *udpSocket) receive() {
	for {
		data, client, err := u.in.next()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		u.forward(data.bytes, client)
		data.free()
	}
}

// forward sends a client's datagram to its endpoint. An endpoint that is known
// to refuse is replaced once.
func (u *udpSocket) forward(data []byte, client netip.AddrPort) {
	for range 2 {
		session := u.session(client)
		if session == nil {
			return
		}
		session.touch()
		_, err := session.upstream.Write(data)
		if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, net.ErrClosed) {
			return
		}
		u.end(session)
	}
}

// session returns the client's session, a new one if need be, and nil if the
// client gets none.
func (u *udpSocket) session(client netip.AddrPort) *session {
	u.mu.Lock()
	defer u.mu.Unlock()
	if have, ok := u.sessions[client]; ok {
		return have
	}
	v := u.s.current.Load()
	verdict, set := u.s.b.node.Load().judge(v, bare(client), u.at.Addr())
	if u.closed || verdict != serve || !u.room() {
		return nil
	}
	made, err := u.open(v, set, client)
	if err != nil {
		u.s.b.sessions.give()
		u.s.b.log.Debug("dropping a datagram", "frontend", u.s.frontend, "client", client, "err", err)
		return nil
	}
	u.sessions[client] = made
	u.s.b.running.Go(func() { u.serve(made) })
	return made
}

// room takes a slot for a session. When there is none, one of the longest idle
// of this frontend's sessions makes room: the oldest of a few picked at random,
// which needs no order to be kept on the data path.
func (u *udpSocket) room() bool {
	if u.s.b.sessions.take() {
		return true
	}
	const sample = 8
	var oldest *session
	seen := 0
	for _, s := range u.sessions {
		if oldest == nil || s.idle() > oldest.idle() {
			oldest = s
		}
		if seen++; seen == sample {
			break
		}
	}
	if oldest == nil {
		return false
	}
	u.drop(oldest)
	return u.s.b.sessions.take()
}

// open connects a socket to the client's endpoint; the first of the set that
// can be connected to at all.
func (u *udpSocket) open(v *vip.VirtualServer, set vip.Set, client netip.AddrPort) (*session, error) {
	list := v.Endpoints(set)
	first := u.s.choose.first(v, set, bare(client), list)
	var failed []error
	for i := range min(len(list), maxRefusals) {
		to := list[(first+i)%len(list)].AddrPort
		made, err := u.dial(client, to)
		if err == nil {
			u.s.choose.took(v, bare(client), to)
			return made, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

func (u *udpSocket) dial(client, to netip.AddrPort) (*session, error) {
	if to == u.at {
		return nil, fmt.Errorf("connecting to %s: %w", to, errLoop)
	}
	conn, err := u.s.b.cfg.Dial(u.s.b.ctx, "udp", to)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", to, err)
	}
	upstream, ok := conn.(*net.UDPConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("connecting to %s: got a %T, not a UDP connection", to, conn)
	}
	return newSession(client, to, upstream)
}

// end ends a session that may have been ended already.
func (u *udpSocket) end(s *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(s)
}

// drop is end with the lock held.
func (u *udpSocket) drop(s *session) {
	if u.sessions[s.client] == s {
		delete(u.sessions, s.client)
		u.s.b.sessions.give()
	}
	_ = s.upstream.Close()
}

// serve brings replies back until the session is idle or cut.
func (u *udpSocket) serve(s *session) {
	defer u.end(s)
	idle := u.s.b.cfg.UDPIdle
	for {
		_ = s.upstream.SetReadDeadline(time.Now().Add(idle - s.idle()))
		data, _, err := s.in.next()
		switch {
		case err == nil:
			s.touch()
			_, _ = u.conn.WriteToUDPAddrPort(data.bytes, s.client) // lost like any datagram
			data.free()
		case !isTimeout(err) || s.idle() >= idle:
			return
		}
	}
}

func bare(client netip.AddrPort) netip.Addr { return client.Addr().Unmap().WithZone("") }
