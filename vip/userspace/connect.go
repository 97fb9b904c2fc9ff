package userspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"signpost/vip"
)

// connect dials the endpoints of a set until one answers. Those that refuse at
// once cost nothing; the silent ones use up the dial timeouts.
func (s *server) connect(v *vip.VirtualServer, set vip.Set, client netip.Addr, self netip.AddrPort) (*net.TCPConn, netip.AddrPort, error) {
	list := v.Endpoints(set)
	first := s.choose.first(v, set, client, list)
	timeouts := s.b.cfg.DialTimeouts
	var failed []error
	for i := 0; len(timeouts) > 0; i++ {
		to := list[(first+i)%len(list)].AddrPort
		conn, err := s.dialTCP(to, timeouts[0], self)
		if err == nil {
			return conn, to, nil
		}
		failed = append(failed, err)
		if isTimeout(err) {
			timeouts = timeouts[1:]
		} else if i+1 >= min(len(list), maxRefusals) {
			break
		}
	}
	return nil, netip.AddrPort{}, errors.Join(failed...)
}

// maxRefusals bounds the endpoints that one connection tries in vain.
const maxRefusals = 16

var errLoop = errors.New("the endpoint is the frontend itself")

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func (s *server) dialTCP(to netip.AddrPort, timeout time.Duration, self netip.AddrPort) (*net.TCPConn, error) {
	if to == self {
		return nil, fmt.Errorf("connecting to %s: %w", to, errLoop)
	}
	ctx, cancel := context.WithTimeout(s.b.ctx, timeout)
	defer cancel()
	conn, err := s.b.cfg.Dial(ctx, "tcp", to)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", to, err)
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("connecting to %s: got a %T, not a TCP connection", to, conn)
	}
	return tcp, nil
}
