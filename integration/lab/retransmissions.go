package lab

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Retransmissions returns how many packets of a TCP connection this side has
// sent more than once. Asked right after connecting, it tells whether the
// first one was lost, which the clock of a busy machine does not.
func Retransmissions(c net.Conn) (uint32, error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0, fmt.Errorf("counting retransmissions: got a %T, not a TCP connection", c)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("counting retransmissions: %w", err)
	}
	var info *unix.TCPInfo
	var failed error
	if err := raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil {
		return 0, fmt.Errorf("counting retransmissions: %w", err)
	}
	if failed != nil {
		return 0, fmt.Errorf("counting retransmissions: %w", failed)
	}
	return info.Total_retrans, nil
}
