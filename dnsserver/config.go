package dnsserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is everything that one server serves. It is read, never changed; the
// zero value of each field means its default.
type Config struct {
	// Blocks are the server blocks. Two that share a listening address share
	// its sockets; there, the most specific zone answers.
	Blocks []Block

	// MaxUDPSize is the largest UDP reply in octets and the size that our own
	// OPT record announces; 512 to 4096, default 1232 (W19).
	MaxUDPSize uint16
	// UDPSockets is the number of sockets for each listening address; default
	// one for each core, at most 8. A reload changes it for new addresses only.
	UDPSockets int
	// MaxQueries limits the queries in flight, for each of UDP and TCP, and by
	// that the memory that a flood can take. Beyond it UDP queries are dropped
	// and counted, TCP clients wait. Default 4096.
	MaxQueries int
	// TCP holds the limits of TCP connections.
	TCP TCPConfig

	// Fail takes what makes it pointless to go on: a forwarding loop. Default:
	// it is logged.
	Fail func(error)
	// Log takes the server's own messages and those of Errors and Log in the
	// blocks; nil discards them.
	Log *slog.Logger
	// Registerer takes the metrics; nil leaves them unregistered. A reload
	// doesn't change it.
	Registerer prometheus.Registerer
}

// TCPConfig limits TCP connections (W24).
type TCPConfig struct {
	// Idle is how long a connection may wait for its next query, and how long
	// one query may take to arrive; default 10 s.
	Idle time.Duration
	// Write is how long a reply may wait for a client that doesn't read;
	// default 5 s.
	Write time.Duration
	// MaxConns limits connections for each listening address, MaxClientConns
	// those of one client address; defaults 4096 and 512. Those beyond are
	// closed at once and counted.
	MaxConns, MaxClientConns int
	// MaxPipelined limits the queries of one connection that are being
	// answered; beyond it the connection is read no further. Default 128.
	MaxPipelined int
}

// Block is one server block: zones, where they are served, and what answers.
// What is on runs in the order of chain.go, however it was written down.
type Block struct {
	// Zones are domain names; "." serves all. Case and a missing final dot
	// don't matter.
	Zones []string
	// Listen are the addresses "host:port" for UDP and TCP. An empty host is
	// all addresses of both families, 0.0.0.0 all of IPv4, port 0 any free port.
	Listen []string

	// Transport is how clients reach the block at these addresses; one address
	// has one transport.
	Transport Transport
	// TLS holds the certificate of DoT and DoH, and may ask for clients'. Its
	// least version is 1.2 whatever it says.
	TLS *tls.Config

	// MaxUDPSize overrides that of the server when it isn't 0.
	MaxUDPSize uint16
	// Metrics counts the block's queries.
	Metrics bool
	// Errors logs failed queries.
	Errors bool
	// Logs are query logs; the first that wants a query writes it.
	Logs []LogConfig
	// LoadBalance, when it isn't nil, shuffles the addresses of answers.
	LoadBalance *LoadBalanceConfig
	// RateLimit bounds what one client gets; nil: nothing does.
	RateLimit *RateLimitConfig
	// Local answers for localhost; nil: off.
	Local *LocalConfig
	// DNS64 makes IPv6 addresses of IPv4 ones; nil: off.
	DNS64 *DNS64Config
	// MinimalANY answers queries for ANY with one record (RFC 8482).
	MinimalANY bool
	// Rewrites change queries before anything else looks at them.
	Rewrites []RewriteRule
	// AutoPath walks clients' search paths for them; nil: off.
	AutoPath *AutoPathConfig
	// ACL says who may ask for what.
	ACL []ACLRule
	// Minimal leaves out of replies what nobody asked for.
	Minimal bool
	// Templates answer with records written down as templates.
	Templates []TemplateConfig
	// Transfers say who may have whole zones; nobody else may (W25).
	Transfers []TransferConfig
	// Hosts answers from a hosts file; nil: off.
	Hosts *HostsConfig
	// Whoami tells clients their address, for names that nobody else has.
	Whoami bool
	// Consolidate sums up errors that come often instead of logging each; it
	// needs Errors.
	Consolidate []ConsolidateRule
	// Loop looks for forwarding loops at start.
	Loop bool
	// Cache keeps answers from outside of the cluster zones; nil: none.
	Cache *CacheConfig
	// Cluster answers the cluster and reverse zones; nil: none.
	Cluster *Cluster
	// Forwards are asked in order of the longest From that matches.
	Forwards []ForwardConfig
}

// Defaults of [Config].
const (
	defaultMaxQueries     = 4096
	defaultTCPIdle        = 10 * time.Second
	defaultTCPWrite       = 5 * time.Second
	defaultMaxConns       = 4096
	defaultMaxClientConns = 512
	defaultMaxPipelined   = 128
)

// orDefault returns v, or def when v is zero.
func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// withDefaults returns the configuration with every zero field filled in.
func (c Config) withDefaults() Config {
	c.MaxUDPSize = orDefault(c.MaxUDPSize, defaultUDPSize)
	c.UDPSockets = orDefault(c.UDPSockets, defaultUDPSockets())
	c.MaxQueries = orDefault(c.MaxQueries, defaultMaxQueries)
	c.TCP.Idle = orDefault(c.TCP.Idle, defaultTCPIdle)
	c.TCP.Write = orDefault(c.TCP.Write, defaultTCPWrite)
	c.TCP.MaxConns = orDefault(c.TCP.MaxConns, defaultMaxConns)
	c.TCP.MaxClientConns = orDefault(c.TCP.MaxClientConns, defaultMaxClientConns)
	c.TCP.MaxPipelined = orDefault(c.TCP.MaxPipelined, defaultMaxPipelined)
	c.Log = orDefault(c.Log, slog.New(slog.DiscardHandler))
	if c.Fail == nil {
		log := c.Log
		c.Fail = func(err error) { log.Error("forwarding loop", "err", err) }
	}
	return c
}

// validate reports everything that is wrong, not only the first.
func (c Config) validate() error {
	var errs []error
	if len(c.Blocks) == 0 {
		errs = append(errs, errors.New("no server block"))
	}
	errs = append(errs, udpSizeError("server: ", c.MaxUDPSize))
	for _, limit := range []struct {
		name string
		n    int
	}{
		{"udp sockets", c.UDPSockets},
		{"max queries", c.MaxQueries},
		{"max connections", c.TCP.MaxConns},
		{"max connections of a client", c.TCP.MaxClientConns},
		{"max pipelined queries", c.TCP.MaxPipelined},
	} {
		if limit.n < 1 {
			errs = append(errs, fmt.Errorf("%s %d: must be at least 1", limit.name, limit.n))
		}
	}
	if c.TCP.Idle < 0 || c.TCP.Write < 0 {
		errs = append(errs, fmt.Errorf("tcp timeouts %v and %v: must not be negative", c.TCP.Idle, c.TCP.Write))
	}
	served := map[string]bool{}
	for i := range c.Blocks {
		errs = append(errs, c.Blocks[i].validate(served)...)
	}
	errs = append(errs, validateTransports(c.Blocks)...)
	return errors.Join(errs...)
}

// udpSizeError checks a maximum size of UDP replies; of says whose, in front of
// the message.
func udpSizeError(of string, size uint16) error {
	if size < minUDPSize || size > maxUDPRequest {
		return fmt.Errorf("%sudp size %d: must be between %d and %d", of, size, minUDPSize, maxUDPRequest)
	}
	return nil
}

// splitListen parses a listening address. An empty host gives the invalid
// address, which stands for all addresses of both families; so does "[::]", as
// for everything written in Go.
func splitListen(s string) (netip.AddrPort, error) {
	port, ok := strings.CutPrefix(s, ":")
	if !ok {
		port, ok = strings.CutPrefix(s, "[::]:")
	}
	if ok {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("parsing listening address %q: bad port", s)
		}
		return netip.AddrPortFrom(netip.Addr{}, uint16(n)), nil
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("parsing listening address %q: want an IP address and a port", s)
	}
	return ap, nil
}
