package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// FreePort returns a port of 127.0.0.1 that nobody has, neither for TCP nor for
// UDP, at the moment.
func FreePort(ctx context.Context) (port int, err error) {
	for range 20 { // one that TCP has free may be a UDP client's
		if port, err = tryPort(ctx); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("looking for a free port: %w", err)
}

func tryPort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	tcp, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err //nolint:wrapcheck // FreePort does
	}
	udp, err := config.ListenPacket(ctx, "udp", tcp.Addr().String())
	if err != nil {
		return 0, errors.Join(err, tcp.Close())
	}
	return tcp.Addr().(*net.TCPAddr).Port, errors.Join(udp.Close(), tcp.Close())
}

// ClientPorts gives out source ports for clients of TCP and UDP, none of them
// again for long: a used one would follow its entry in connection tracking, also to
// an endpoint that went, or share it with a connection by another way (in mode
// ipvs, docs/modes.md). They are neither ephemeral ports, which somebody may have,
// nor node ports. The zero value is ready; any goroutine may call it.
type ClientPorts struct{ given atomic.Uint32 }

// Next returns the next port.
func (p *ClientPorts) Next() int { return 11000 + int(p.given.Add(1))%19000 }
