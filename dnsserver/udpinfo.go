package dnsserver

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// A socket that is bound to all addresses would reply from whichever address
// the kernel thinks best, and clients drop what doesn't come from the address
// they asked (W26). So the kernel is asked to tell the destination of each
// datagram, in a control message that, slightly changed, is also the order to
// send the reply from there: ip(7) IP_PKTINFO, RFC 3542 IPV6_PKTINFO.

// oobSize is room for the larger of the two control messages: a header of 16
// octets and 20 of data, rounded up.
const oobSize = 40

// requestPacketInfo turns the control messages on. A socket for both families
// gives IPv4 destinations in IPv6 form.
func requestPacketInfo(network string, c syscall.RawConn) error {
	if network == "udp4" {
		return control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1) })
	}
	return control(c, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	})
}

// replyPacketInfo turns a received control message, in place, into the one for
// the reply; without one it returns nil.
func replyPacketInfo(oob []byte) []byte {
	if len(oob) < unix.CmsgLen(0) { // the parser reads a header in any case
		return nil
	}
	head, data, rest, err := unix.ParseOneSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	switch {
	case isInet4Info(head) && len(data) >= unix.SizeofInet4Pktinfo:
		clear(data[:4])             // interface: whichever routing chooses
		copy(data[4:8], data[8:12]) // source: the datagram's destination
	case isInet6Info(head) && len(data) >= unix.SizeofInet6Pktinfo:
		clear(data[16:20]) // interface
	default:
		return nil
	}
	return oob[:len(oob)-len(rest)]
}

// packetInfoAddr returns the address in a control message.
func packetInfoAddr(oob []byte) (netip.Addr, bool) {
	if len(oob) < unix.CmsgLen(0) {
		return netip.Addr{}, false
	}
	head, data, _, err := unix.ParseOneSocketControlMessage(oob)
	switch {
	case err != nil:
		return netip.Addr{}, false
	case isInet4Info(head):
		return netip.AddrFromSlice(data[4:8])
	}
	a, ok := netip.AddrFromSlice(data[:16])
	return a.Unmap(), ok
}

func isInet4Info(h unix.Cmsghdr) bool { return h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO }

func isInet6Info(h unix.Cmsghdr) bool {
	return h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO
}
