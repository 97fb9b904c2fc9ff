package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// FreePort returns a port of 127.0.0.1 that nobody has, neither for TCP nor for
// UDP, at the moment.
func FreePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	tcp, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	udp, err := config.ListenPacket(ctx, "udp", tcp.Addr().String())
	if err != nil {
		return 0, errors.Join(fmt.Errorf("looking for a free port: %w", err), tcp.Close())
	}
	return tcp.Addr().(*net.TCPAddr).Port, errors.Join(udp.Close(), tcp.Close())
}
