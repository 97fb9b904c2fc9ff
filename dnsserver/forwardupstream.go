package dnsserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Policy is the order in which upstreams are asked. Those after the first are
// asked only when it fails.
type Policy uint8

const (
	// Random starts anywhere.
	Random Policy = iota
	// RoundRobin starts with each in turn.
	RoundRobin
	// Sequential starts with the first always.
	Sequential
)

// proxyName is CoreDNS's label of whoever asks upstreams.
const proxyName = "forward"

// upstream is one server that is forwarded to.
type upstream struct {
	upstreamAddr
	label string
	pool  *connPool
	https *httpsClient // nil unless it is asked over HTTPS

	took      *prometheus.HistogramVec
	dials     prometheus.Counter // sockets for single questions over UDP
	unhealthy prometheus.Counter

	fails    atomic.Int32 // checks failed, one after the other
	checking atomic.Bool
}

// newUpstream makes an upstream that is thought to be up.
func (f *forward) newUpstream(to upstreamAddr) *upstream {
	up := &upstream{upstreamAddr: to, label: to.addr.String(), took: f.metrics.upstream}
	stream := "tcp"
	plain := &net.Dialer{LocalAddr: localTCP(f.conf.Source)}
	dial := func(ctx context.Context) (net.Conn, error) { return plain.DialContext(ctx, "tcp", up.label) }
	switch to.transport {
	case DoT:
		stream = "tcp-tls"
		secure := &tls.Dialer{NetDialer: plain, Config: f.tls.config(to)}
		dial = func(ctx context.Context) (net.Conn, error) { return secure.DialContext(ctx, "tcp", up.label) }
	case DoH:
		stream = "https"
	case PlainDNS:
	}
	up.pool = &connPool{
		conf: f.conf.Pool, dial: dial,
		hits:   f.metrics.connHits.WithLabelValues(proxyName, up.label, stream),
		misses: f.metrics.connMisses.WithLabelValues(proxyName, up.label, stream),
	}
	if to.transport == DoH {
		up.https = newHTTPSClient(to, f.tls.config(to), up.pool, f.conf.HTTPGet)
	}
	up.dials = f.metrics.connMisses.WithLabelValues(proxyName, up.label, "udp")
	up.unhealthy = f.metrics.healthFailures.WithLabelValues(proxyName, up.label)
	return up
}

// close lets idle connections go.
func (u *upstream) close() {
	u.pool.close()
	if u.https != nil {
		u.https.client.CloseIdleConnections()
	}
}

// localTCP and localUDP are the address that connections come from; nil: the
// one that the kernel thinks best.
func localTCP(source netip.Addr) net.Addr {
	if !source.IsValid() {
		return nil
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
}

func localUDP(source netip.Addr) net.Addr {
	if !source.IsValid() {
		return nil
	}
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
}

// observe notes how long an answer took.
func (u *upstream) observe(rcode int, took time.Duration) {
	u.took.WithLabelValues(proxyName, u.label, rcodeLabel(rcode)).Observe(took.Seconds())
}
