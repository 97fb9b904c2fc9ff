package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// userAgent begins as the kubelet's does: applications look for it.
const userAgent = "kube-probe/signpost"

// checker makes one check of a target; an error says why it failed.
type checker interface {
	check(ctx context.Context, t target) error
}

// network is the checker that goes over the network.
type network struct {
	dialer    net.Dialer
	tls       *tls.Config
	http, h2c *http.Client
}

func newNetwork() *network {
	n := &network{
		// Pods have certificates of their own making; a probe asks whether the
		// pod is ready, not who it is. So does the kubelet.
		tls: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
	n.http, n.h2c = n.httpClients()
	return n
}

func (n *network) check(ctx context.Context, t target) error {
	if t.port == 0 {
		return fmt.Errorf("finding port %q: no such port in the container", t.portText())
	}
	address := net.JoinHostPort(t.host, strconv.Itoa(t.port))
	switch h := t.handler; {
	case h.HTTPGet != nil:
		return n.checkHTTP(ctx, h.HTTPGet, address)
	case h.TCPSocket != nil:
		return n.checkTCP(ctx, address)
	default:
		return n.checkGRPC(ctx, h.GRPC, address)
	}
}

// checkTCP succeeds if a connection can be made.
func (n *network) checkTCP(ctx context.Context, address string) error {
	conn, err := n.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("probing by TCP: %w", err)
	}
	conn.Close() //nolint:errcheck // nothing was written
	return nil
}
