package dnsserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// maxUDPRequest is the largest request read over UDP (W21).
	maxUDPRequest = 4096
	// udpBuffer is asked of the kernel for each direction of a socket: room
	// for a burst while the reader is off its core.
	udpBuffer = 1 << 20
	// maxUDPSockets is the default's upper bound: beyond it, more sockets
	// don't help.
	maxUDPSockets = 8
)

// defaultUDPSockets is one socket for each core.
func defaultUDPSockets() int { return min(runtime.GOMAXPROCS(0), maxUDPSockets) }

// udpSocket is one of the sockets that share a listening address. One
// goroutine reads it, many datagrams at a time: what the fast path or the bytes
// alone decide is answered there, the rest is handed to a goroutine of its own,
// as far as slots are free.
type udpSocket struct {
	l     *listener
	conn  *net.UDPConn
	shard int
	// info is set where the socket has several addresses, so that each packet
	// has to tell which one it was sent to (W26).
	info bool
	// scratch is for the rejections of the read loop.
	scratch [maxUDPReply]byte
	batch   *udpBatch
	fast    *fastPath
	// answered are the queries of one batch that the read loop has answered.
	answered [batchSize]fastDone
}

// udpPacket is a datagram and the way back to its sender.
type udpPacket struct {
	sock *udpSocket
	from netip.AddrPort
	n    int
	oob  []byte // control messages for the reply
	buf  [maxUDPRequest]byte
	room [oobSize]byte
}

// udpPackets are reused between datagrams.
var udpPackets = sync.Pool{New: func() any { return new(udpPacket) }}

// openUDP opens one socket of the listener.
func openUDP(ctx context.Context, l *listener, addr netip.AddrPort, shard int) (*udpSocket, error) {
	u := &udpSocket{l: l, shard: shard, info: !addr.Addr().IsValid() || addr.Addr().IsUnspecified()}
	lc := net.ListenConfig{Control: func(network, address string, c syscall.RawConn) error {
		if err := reusePort(network, address, c); err != nil || !u.info {
			return err
		}
		return requestPacketInfo(network, c)
	}}
	conn, err := lc.ListenPacket(ctx, listenNetwork("udp", addr), listenString(addr))
	if err != nil {
		return nil, fmt.Errorf("opening udp socket: %w", err)
	}
	u.conn = conn.(*net.UDPConn)
	raw, err := u.conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("opening udp socket: %w", err)
	}
	u.batch, u.fast = newUDPBatch(raw, u.info), newFastPath(l.srv)
	_ = u.conn.SetReadBuffer(udpBuffer)  // the kernel's limit may be lower
	_ = u.conn.SetWriteBuffer(udpBuffer) // the same
	return u, nil
}

// loop reads until the listener stops.
func (u *udpSocket) loop() {
	p := u.packet()
	defer func() { udpPackets.Put(p) }()
	for {
		n, err := u.batch.read()
		if err != nil {
			if u.l.stopped() {
				return
			}
			u.l.pause()
			continue
		}
		p = u.answerBatch(n, p)
	}
}

// answerBatch deals with the n datagrams of a batch. It returns a packet for
// the next one that has to be handed over.
func (u *udpSocket) answerBatch(n int, p *udpPacket) *udpPacket {
	sv, start, done := u.l.serving.Load(), time.Now(), 0
	for i := range n {
		if u.answerFast(sv, i, &u.answered[done]) {
			done++
			continue
		}
		u.copyOut(i, p)
		if u.handle(p) {
			p = u.packet()
		}
	}
	if done == 0 {
		return p
	}
	for range u.batch.flush() {
		u.l.srv.metrics.dropped(dropSend)
	}
	took := time.Since(start)
	for i := range u.answered[:done] {
		u.answered[i].count(u.shard, took)
	}
	return p
}

// answerFast queues the reply to a datagram if the fast path has one.
func (u *udpSocket) answerFast(sv *serving, i int, done *fastDone) bool {
	b := u.batch
	req := b.request(i)
	in, v := inspect(req)
	if v != accept || b.port(i) == 0 {
		return false
	}
	reply, ok := u.fast.answer(sv, protoUDP, req, &in, b.room(i))
	if !ok {
		return false
	}
	family := 0
	if b.isInet6(i) {
		family = familyIndex(b.from(i).Addr())
	}
	*done = u.fast.answered(family, reply)
	b.queue(i, reply.wire, replyPacketInfo(b.oob(i)))
	return true
}

// packet takes an empty packet from the pool.
func (u *udpSocket) packet() *udpPacket {
	p := udpPackets.Get().(*udpPacket)
	p.sock = u
	return p
}

// copyOut takes a datagram out of the batch, whose memory is read into again.
func (u *udpSocket) copyOut(i int, p *udpPacket) {
	p.n = copy(p.buf[:], u.batch.request(i))
	p.from = u.batch.from(i)
	p.oob = replyPacketInfo(p.room[:copy(p.room[:], u.batch.oob(i))])
}

// handle deals with one datagram; true means that it was handed over and the
// packet with it.
func (u *udpSocket) handle(p *udpPacket) bool {
	s, sv := u.l.srv, u.l.serving.Load()
	if p.from.Port() == 0 { // nowhere to reply to
		s.metrics.dropped(dropJunk)
		return false
	}
	in, v := s.screen(sv, p, protoUDP, p.buf[:p.n], u.scratch[:])
	if v != accept {
		return false
	}
	if !s.udpSlots.try() {
		s.metrics.dropped(dropOverload)
		return false
	}
	u.l.inflight.Add(1)
	go u.serve(sv, p, in)
	return true
}

// serve answers one datagram.
func (u *udpSocket) serve(sv *serving, p *udpPacket, in inspected) {
	defer u.l.inflight.Done()
	defer u.l.srv.udpSlots.release()
	u.l.srv.serve(&query{
		serving: sv, proto: protoUDP, shard: u.shard, in: in, raw: p.buf[:p.n], client: p,
	})
	udpPackets.Put(p)
}

// send implements client.
func (p *udpPacket) send(reply []byte) error {
	_, _, err := p.sock.conn.WriteMsgUDPAddrPort(reply, p.oob, p.from)
	return err //nolint:wrapcheck // only counted
}

// remote implements client.
func (p *udpPacket) remote() netip.AddrPort { return p.from }

// local implements client: the address that the datagram was sent to.
func (p *udpPacket) local() netip.AddrPort {
	if a, ok := packetInfoAddr(p.oob); ok {
		return netip.AddrPortFrom(a, p.sock.l.addr.Port())
	}
	return p.sock.l.addr
}
