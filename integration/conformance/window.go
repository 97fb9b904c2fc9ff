package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// window is B56: an endpoint's segment that is far outside of the window. Conntrack
// takes it for nobody's, and leaves it untranslated. If it gets to the client, the
// client, which knows no connection to the endpoint, resets it: the endpoint's half ends.
func (r *runner) window(t *testing.T) {
	d := r.fresh(t)
	want := mustState(t, feature{world: "service a/web type=NodePort ips=10.96.0.7 ports=80/P->30080" + threeEndpoints})
	d.apply(t, nil, want)
	for _, tt := range []struct{ name, host, to string }{
		{"a pod's connection", "p3", "10.96.0.7:80"},
		{"IPv6", "p3", "[fd00:96::7]:80"},
		{"a masqueraded connection", outside, "192.168.6.1:30080"},
		{"the node's own connection", node, "10.96.0.7:80"},
	} {
		t.Run("B56 "+tt.name, func(t *testing.T) {
			c := r.open(t, tt.host, tt.to)
			pod, endpoint, client := c.ends(t)
			seq, ack := c.numbers(t)
			err := r.site.lab.RunIn(pod, func() error { return sendSegment(endpoint, client, seq+1<<30, ack) })
			if err != nil {
				t.Fatal(err)
			}
			// The reset, if there is one, is under way now.
			time.AfterFunc(silence, func() { _ = c.SetReadDeadline(time.Now()) })
			buf := make([]byte, 1)
			if _, err := c.Read(buf); err == nil || !isTimeout(err) {
				t.Fatalf("after a segment outside the window: %v", err)
			}
			if err := c.SetDeadline(time.Now().Add(r.suite.Patience)); err != nil {
				t.Fatal(err)
			}
			if now := c.say(t); !strings.Contains(now, pod) {
				t.Errorf("after a segment outside the window %q answers, before %s", now, pod)
			}
		})
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

var whoAndWhom = regexp.MustCompile(`^pod (\S+) at (\S+), you are (\S+)\s*$`)

// ends asks who is at the other end, and whom it sees at this one.
func (c connection) ends(t *testing.T) (pod string, endpoint, client netip.AddrPort) {
	t.Helper()
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		t.Fatal(err)
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	words := whoAndWhom.FindStringSubmatch(line)
	if words == nil {
		t.Fatalf("understanding %q: not an echo server's", line)
	}
	client = netip.MustParseAddrPort(words[3])
	return words[1], netip.MustParseAddrPort(words[2]), netip.AddrPortFrom(client.Addr().Unmap(), client.Port())
}

// numbers are the sequence number that the client expects next and the one
// that it will send next.
func (c connection) numbers(t *testing.T) (receive, send uint32) {
	t.Helper()
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) { receive, send, err = sequenceNumbers(int(fd)) })
	if err != nil {
		t.Fatalf("asking for the sequence numbers: %v", err)
	}
	return receive, send
}

func sequenceNumbers(fd int) (receive, send uint32, err error) {
	const off = -1 // without a window probe
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1); err != nil {
		return 0, 0, err
	}
	var numbers [2]uint32
	for i, queue := range []int{1, 2} { // TCP_RECV_QUEUE, TCP_SEND_QUEUE
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, queue); err != nil {
			return 0, 0, err
		}
		n, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
		if err != nil {
			return 0, 0, err
		}
		numbers[i] = uint32(n)
	}
	return numbers[0], numbers[1], unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, off)
}

// sendSegment sends one byte, out of the calling thread's network namespace.
func sendSegment(from, to netip.AddrPort, seq, ack uint32) error {
	const ackPush, words = 0x18, 5
	s := binary.BigEndian.AppendUint16(nil, from.Port())
	s = binary.BigEndian.AppendUint16(s, to.Port())
	s = binary.BigEndian.AppendUint32(s, seq)
	s = binary.BigEndian.AppendUint32(s, ack)
	s = append(s, words<<4, ackPush, 0x20, 0, 0, 0, 0, 0, 'x')
	binary.BigEndian.PutUint16(s[16:], tcpChecksum(from.Addr(), to.Addr(), s))
	network := "ip4:tcp"
	if from.Addr().Is6() {
		network = "ip6:tcp"
	}
	c, err := net.DialIP(network, &net.IPAddr{IP: from.Addr().AsSlice()}, &net.IPAddr{IP: to.Addr().AsSlice()})
	if err != nil {
		return err
	}
	_, err = c.Write(s)
	return errors.Join(err, c.Close())
}

// tcpChecksum is RFC 1071's, over the pseudo header and the segment.
func tcpChecksum(from, to netip.Addr, segment []byte) uint16 {
	data := append(from.AsSlice(), to.AsSlice()...)
	data = append(data, 0, unix.IPPROTO_TCP)
	data = binary.BigEndian.AppendUint16(data, uint16(len(segment)))
	data = append(data, segment...)
	if len(data)%2 == 1 {
		data = append(data, 0)
	}
	sum := uint32(0)
	for i := 0; i < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
