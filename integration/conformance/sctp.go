package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// SCTP without the kernel's: many a kernel can translate SCTP and has no
// sockets for it. The first packet of an association (INIT) and its answer
// (INIT ACK, or ABORT where nobody listens) are all that a dataplane has to tell apart,
// so they are written here, on raw sockets (RFC 9260 section 3).

const (
	sctpHeader = 12
	initLength = 20
	chunkInit  = 1
	chunkAck   = 2
	chunkAbort = 6
	// sctpText is a parameter of the answer that receivers ignore (RFC 9260
	// section 3.2.1: the two highest bits are 10); it has the echo server's sentence.
	sctpText = 0x8fff
)

// sctpPacket is an INIT or INIT ACK.
type sctpPacket struct {
	from, to uint16 // ports
	tag      uint32 // verification tag: 0 in an INIT, the INIT's own in the answer
	kind     byte
	own      uint32 // the sender's tag
	text     string
}

func (p sctpPacket) encode() []byte {
	text := []byte(p.text)
	for len(text)%4 != 0 {
		text = append(text, '\n')
	}
	b := make([]byte, sctpHeader+initLength, sctpHeader+initLength+4+len(text))
	binary.BigEndian.PutUint16(b[0:], p.from)
	binary.BigEndian.PutUint16(b[2:], p.to)
	binary.BigEndian.PutUint32(b[4:], p.tag)
	chunk := b[sctpHeader:]
	chunk[0] = p.kind
	binary.BigEndian.PutUint32(chunk[4:], p.own)
	binary.BigEndian.PutUint32(chunk[8:], 64<<10) // receiver window
	binary.BigEndian.PutUint16(chunk[12:], 1)     // streams out
	binary.BigEndian.PutUint16(chunk[14:], 1)     // and in
	if len(text) > 0 {
		b = binary.BigEndian.AppendUint16(b, sctpText)
		b = binary.BigEndian.AppendUint16(b, uint16(4+len(text)))
		b = append(b, text...)
	}
	binary.BigEndian.PutUint16(b[sctpHeader+2:], uint16(len(b)-sctpHeader))
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func decodeSCTP(b []byte) (sctpPacket, bool) {
	if len(b) < sctpHeader+initLength {
		return sctpPacket{}, false
	}
	p := sctpPacket{
		from: binary.BigEndian.Uint16(b[0:]), to: binary.BigEndian.Uint16(b[2:]), tag: binary.BigEndian.Uint32(b[4:]),
		kind: b[sctpHeader], own: binary.BigEndian.Uint32(b[sctpHeader+4:]),
	}
	if rest := b[sctpHeader+initLength:]; len(rest) > 4 && binary.BigEndian.Uint16(rest) == sctpText {
		p.text = string(rest[4:])
	}
	return p, p.kind == chunkInit || p.kind == chunkAck || p.kind == chunkAbort
}

// serveSCTP answers INITs on every host.
func (s *site) serveSCTP() error {
	ports := map[string][]uint16{elsewhere: elsewherePorts, node: nodePorts, otherNode: nodePorts, outside: nil}
	for _, p := range s.lab.Topology.Pods {
		ports[p.Name] = podPorts
	}
	for name, open := range ports {
		server := &sctpServer{name: name, open: open}
		for _, a := range append(both("127.0.0.1", "::1"), s.addrs(name)...) {
			if err := s.lab.RunIn(name, func() error { return server.listen(a) }); err != nil {
				return errors.Join(fmt.Errorf("answering SCTP on %q: %w", name, err), server.Close())
			}
		}
		s.closers = append(s.closers, server)
	}
	return nil
}

// sctpServer answers the INITs that reach a host, on its open ports.
type sctpServer struct {
	name    string
	open    []uint16
	sockets []*net.IPConn
	running sync.WaitGroup
}

func (s *sctpServer) listen(at netip.Addr) error {
	c, err := net.ListenIP("ip:132", &net.IPAddr{IP: at.AsSlice()})
	if err != nil {
		return err
	}
	s.sockets = append(s.sockets, c)
	s.running.Go(func() { s.answer(c, at) })
	return nil
}

func (s *sctpServer) answer(c *net.IPConn, at netip.Addr) {
	buf := make([]byte, 2048)
	for {
		n, from, err := c.ReadFromIP(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		p, ok := decodeSCTP(buf[:max(n, 0)])
		if err != nil || !ok || p.kind != chunkInit {
			continue
		}
		client, _ := netip.AddrFromSlice(from.IP)
		text := fmt.Sprintf("pod %s at %s, you are %s\n", s.name, netip.AddrPortFrom(at, p.to), netip.AddrPortFrom(client.Unmap(), p.from))
		answer := sctpPacket{from: p.to, to: p.from, tag: p.own, kind: chunkAck, own: rand.Uint32() | 1, text: text}
		if !slices.Contains(s.open, p.to) {
			answer.kind, answer.text = chunkAbort, ""
		}
		_, _ = c.WriteToIP(answer.encode(), from)
	}
}

// Close ends the server and waits for it.
func (s *sctpServer) Close() error {
	var errs []error
	for _, c := range s.sockets {
		errs = append(errs, c.Close())
	}
	s.running.Wait()
	return errors.Join(errs...)
}

// alone waits until nobody else speaks SCTP between two addresses, and returns
// what lets the next one: a raw socket hears of the refusals of all.
func (s *site) alone(p probe) (done func()) {
	lock, _ := s.sctp.LoadOrStore([2]netip.Addr{p.From, p.To.Addr}, new(sync.Mutex))
	mu := lock.(*sync.Mutex)
	mu.Lock()
	return mu.Unlock
}

// nextSCTPPort is a source port that was not used for long: unlike SCTP, the client
// does not try again where one that is remembered costs the first packet.
func (s *site) nextSCTPPort() uint16 { return uint16(32768 + s.sctpPorts.Add(1)%28000) }

// askSCTP sends an INIT and returns the text of its answer; see alone.
func (s *site) askSCTP(ctx context.Context, p probe) (string, error) {
	var c *net.IPConn
	err := s.lab.RunIn(p.host, func() (err error) {
		c, err = net.DialIP("ip:132", &net.IPAddr{IP: p.From.AsSlice()}, &net.IPAddr{IP: p.To.Addr.AsSlice()})
		return err
	})
	if err != nil {
		return "", err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return "", err
	}
	hello := sctpPacket{from: s.nextSCTPPort(), to: p.To.Port, kind: chunkInit, own: rand.Uint32() | 1}
	if _, err := c.Write(hello.encode()); err != nil && !errors.Is(err, syscall.EPERM) {
		return "", refusedBy(err)
	}
	return await(c, hello)
}

func await(c *net.IPConn, hello sctpPacket) (string, error) {
	buf := make([]byte, 2048)
	for {
		n, _, err := c.ReadFromIP(buf) // which takes IPv4's header away, as Read does not
		if err != nil {
			return "", refusedBy(err)
		}
		a, ok := decodeSCTP(buf[:n])
		switch {
		case !ok || a.tag != hello.own:
		case a.kind == chunkAck:
			return strings.TrimSpace(a.text), nil
		case a.kind == chunkAbort:
			return "", os.NewSyscallError("read", syscall.ECONNREFUSED)
		}
	}
}

// refusedBy makes of what a raw socket hears of an ICMP message what other
// sockets hear of it.
func refusedBy(err error) error {
	if errors.Is(err, unix.EPROTO) || errors.Is(err, unix.EACCES) {
		return os.NewSyscallError("read", syscall.ECONNREFUSED)
	}
	return err
}
