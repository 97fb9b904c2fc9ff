package dnsserver

import (
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchSize is how many datagrams one system call reads or writes at most.
// More don't make it cheaper, and the first of a batch waits for the last.
const batchSize = 16

// maxUDPReply is the largest reply over UDP with its OPT record.
const maxUDPReply = maxUDPRequest + optLen + keepaliveLen

// mmsghdr is struct mmsghdr of recvmmsg(2), which x/sys has no type for.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// slot is one datagram of a batch: memory that the kernel reads and writes.
type slot struct {
	name unix.RawSockaddrInet6 // the larger of the two families
	oob  [oobSize]byte
	in   [maxUDPRequest]byte
	out  [maxUDPReply]byte
	iov  [2]unix.Iovec // of in, of out
}

// udpBatch reads and writes the datagrams of a socket many at a time: a system
// call is most of what a query costs. It belongs to the socket's read loop.
type udpBatch struct {
	raw   syscall.RawConn
	info  bool
	slots [batchSize]slot
	recv  [batchSize]mmsghdr
	used  int // of recv in the last call

	reply  [batchSize]mmsghdr
	queued int

	readFn, writeFn func(fd uintptr) bool // made once: a closure would be allocated
	errno           syscall.Errno
	sent            int
}

// newUDPBatch returns a batch for a socket. With info, control messages are
// read.
func newUDPBatch(raw syscall.RawConn, info bool) *udpBatch {
	b := &udpBatch{raw: raw, info: info, used: batchSize}
	b.readFn, b.writeFn = b.tryRead, b.tryWrite
	for i := range b.slots {
		s := &b.slots[i]
		s.iov[0].Base, s.iov[1].Base = &s.in[0], &s.out[0]
		s.iov[0].SetLen(len(s.in))
		b.recv[i].hdr.Iov = &s.iov[0]
		b.recv[i].hdr.SetIovlen(1)
		b.reply[i].hdr.SetIovlen(1)
	}
	return b
}

// read waits for datagrams and returns how many came.
func (b *udpBatch) read() (int, error) {
	for i := range b.used { // the kernel has written into these
		h, s := &b.recv[i].hdr, &b.slots[i]
		h.Name, h.Namelen = (*byte)(unsafe.Pointer(&s.name)), unix.SizeofSockaddrInet6
		if b.info {
			h.Control = &s.oob[0]
			h.SetControllen(len(s.oob))
		}
	}
	b.used = 0
	if err := b.raw.Read(b.readFn); err != nil {
		return 0, err //nolint:wrapcheck // only looked at, never shown
	}
	if b.errno != 0 {
		return 0, b.errno
	}
	return b.used, nil
}

// tryRead is read's step on a descriptor that never blocks; false means that
// there is nothing yet.
func (b *udpBatch) tryRead(fd uintptr) bool {
	n, errno := mmsg(unix.SYS_RECVMMSG, fd, b.recv[:])
	b.errno = errno
	if errno == unix.EAGAIN {
		return false
	}
	if errno == 0 {
		b.used = n
	}
	return true
}

// mmsg is recvmmsg(2) or sendmmsg(2), which have their first four arguments in
// common; the fifth, a time limit, is for the former only and not used.
//
// The call never blocks, so the scheduler isn't told of it: a batch takes long
// enough for it to think otherwise, and to start a thread for nothing.
func mmsg(call, fd uintptr, msgs []mmsghdr) (int, syscall.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(call, fd,
			uintptr(unsafe.Pointer(&msgs[0])), uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
		if errno == 0 {
			return int(n), 0
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// request returns datagram i of the last read.
func (b *udpBatch) request(i int) []byte { return b.slots[i].in[:b.recv[i].n] }

// oob returns its control messages.
func (b *udpBatch) oob(i int) []byte {
	if !b.info {
		return nil
	}
	return b.slots[i].oob[:b.recv[i].hdr.Controllen]
}

// room returns the memory for the reply to datagram i.
func (b *udpBatch) room(i int) []byte { return b.slots[i].out[:0] }

// isInet6 reports whether the sender's address is in IPv6 form.
func (b *udpBatch) isInet6(i int) bool { return b.slots[i].name.Family == unix.AF_INET6 }

// from returns the sender.
func (b *udpBatch) from(i int) netip.AddrPort {
	n := &b.slots[i].name
	if n.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(n))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), networkOrder(v4.Port))
	}
	addr := netip.AddrFrom16(n.Addr)
	if n.Scope_id != 0 {
		addr = addr.WithZone(strconv.FormatUint(uint64(n.Scope_id), 10))
	}
	return netip.AddrPortFrom(addr, networkOrder(n.Port))
}

// port is the sender's port; both families have it in the same place.
func (b *udpBatch) port(i int) uint16 { return networkOrder(b.slots[i].name.Port) }

// networkOrder reads a number whose octets are in network order in memory.
func networkOrder(n uint16) uint16 {
	octets := (*[2]byte)(unsafe.Pointer(&n))
	return uint16(octets[0])<<8 | uint16(octets[1])
}

// queue puts a reply to datagram i, which lies in its room, on its way; oob is
// the control message to send it with.
func (b *udpBatch) queue(i int, reply, oob []byte) {
	s, h := &b.slots[i], &b.reply[b.queued].hdr
	b.queued++
	s.iov[1].SetLen(len(reply))
	h.Iov = &s.iov[1]
	h.Name, h.Namelen = (*byte)(unsafe.Pointer(&s.name)), b.recv[i].hdr.Namelen
	h.Control = nil
	if len(oob) > 0 {
		h.Control = &oob[0]
	}
	h.SetControllen(len(oob))
}

// flush sends what is queued and returns how many replies couldn't be sent.
func (b *udpBatch) flush() (failed int) {
	for b.sent = 0; b.sent < b.queued; {
		if b.raw.Write(b.writeFn) != nil { // closed
			failed += b.queued - b.sent
			break
		}
		if b.errno != 0 { // of the first that was left
			b.sent++
			failed++
		}
	}
	b.queued = 0
	return failed
}

// tryWrite is flush's step.
func (b *udpBatch) tryWrite(fd uintptr) bool {
	n, errno := mmsg(unix.SYS_SENDMMSG, fd, b.reply[b.sent:b.queued])
	b.errno = errno
	if errno == unix.EAGAIN {
		return false
	}
	b.sent += n
	return true
}
