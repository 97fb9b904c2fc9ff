package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// probe is a packet from a host of the lab, and what has to become of it.
type probe struct {
	viptest.Packet
	host string
	want viptest.Outcome
	text string // to say over TCP or UDP; empty: hello
}

const (
	// atOnce is how many probes are under way at a time.
	atOnce = 64
	// silence is how long an answer must not come where there is to be none. It
	// is shorter than TCP's first retransmission.
	silence = 300 * time.Millisecond
	// promptly is how long an answer may take: one that comes later was not given
	// to the first packet, but to TCP's first retransmission (F-15).
	promptly = 950 * time.Millisecond
)

// errLate has a probe sent again: a machine that was busy with the other probes
// may be late, a dataplane that is late is so the second time, too.
var errLate = errors.New("not at once")

// check sends probes and compares what becomes of them with what has to.
func (r *runner) check(t *testing.T, when string, probes []probe) {
	t.Helper()
	if err := r.site.forgetFlows(); err != nil {
		t.Fatalf("emptying the connection tracking table: %v", err)
	}
	var mu sync.Mutex
	var late []probe
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, p := range probes {
		all.Go(func() error {
			switch err := r.checkOne(t.Context(), p); {
			case errors.Is(err, errLate):
				t.Logf("%s: %v; it is sent again", when, err)
				mu.Lock()
				defer mu.Unlock()
				late = append(late, p)
			case err != nil:
				t.Errorf("%s: %v", when, err)
			}
			return nil
		})
	}
	_ = all.Wait() // every goroutine reports for itself
	for _, p := range late {
		if err := r.checkOne(t.Context(), p); err != nil {
			t.Errorf("%s, for the second time and alone: %v", when, err)
		}
	}
}

// checkOne sends a probe, with the suite's patience.
func (r *runner) checkOne(ctx context.Context, p probe) error {
	patience := r.suite.Patience
	if p.want.Action == viptest.Drop || p.want.Action == viptest.Reject && r.suite.Limits.SilentUDP && p.To.Protocol == discovery.UDP {
		patience = silence
	}
	if p.To.Protocol == discovery.SCTP {
		defer r.site.alone(p)()
	}
	start := time.Now()
	if err := r.try(ctx, p, patience); err != nil {
		return err
	}
	took := time.Since(start)
	accepted := p.want.Action == viptest.Forward && p.To.Protocol == discovery.TCP
	refused := p.want.Action == viptest.Reject && patience != silence
	if (accepted || refused) && took > promptly {
		return fmt.Errorf("sending %s: answered after %s, %w", p.Packet, took, errLate)
	}
	return nil
}

func (r *runner) try(ctx context.Context, p probe, patience time.Duration) error {
	got, err := r.site.send(ctx, p, patience)
	if err != nil {
		return fmt.Errorf("sending %s: %w", p.Packet, err)
	}
	return p.want.Check(p.Packet, r.excuse(p, got))
}

// excuse overlooks what the backend's limits name, and that a host refuses
// what passes and nobody listens for.
func (r *runner) excuse(p probe, got viptest.Result) viptest.Result {
	limits := r.suite.Limits
	switch {
	case got.Action == viptest.Forward && limits.LosesSource,
		// What stays on the node finds its way back, masqueraded or not.
		got.Action == viptest.Forward && r.site.host[got.Endpoint.Addr()] == node,
		// The node's own address, masqueraded, may be the same one.
		got.Action == viptest.Forward && p.Source == vip.FromNode && !got.SNAT:
		got.SNAT = p.want.Masquerades(p.Packet, got.Endpoint)
	case p.want.Action == viptest.Pass && got.Action == viptest.Reject && !r.site.answers[netip.AddrPortFrom(p.To.Addr, p.To.Port)],
		p.want.Action == viptest.Pass && got.Action != viptest.Forward && limits.Captures:
		got.Action = viptest.Pass
	case p.want.Action == viptest.Reject && got.Action == viptest.Drop && limits.SilentUDP && p.To.Protocol == discovery.UDP:
		got.Action = viptest.Reject
	}
	return got
}

// send sends one packet, and says what became of it.
func (s *site) send(ctx context.Context, p probe, patience time.Duration) (viptest.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := "", error(nil)
	if p.To.Protocol == discovery.SCTP {
		answer, err = s.askSCTP(ctx, p)
	} else {
		answer, err = s.ask(ctx, p)
	}
	switch {
	case err == nil:
		return understand(p.Packet, answer)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return viptest.Result{Action: viptest.Reject}, nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return viptest.Result{Action: viptest.Drop}, nil
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return viptest.Result{Action: viptest.Pass}, nil
	}
	return viptest.Result{}, err
}

// ask connects by TCP or UDP and returns what the other side says.
func (s *site) ask(ctx context.Context, p probe) (string, error) {
	ip, port := net.IP(p.From.AsSlice()), s.clients.Next()
	network, from := "tcp", net.Addr(&net.TCPAddr{IP: ip, Port: port})
	if p.To.Protocol == discovery.UDP {
		network, from = "udp", &net.UDPAddr{IP: ip, Port: port}
	}
	to := netip.AddrPortFrom(p.To.Addr, p.To.Port).String()
	c, err := s.lab.DialWith(ctx, p.host, net.Dialer{LocalAddr: from}, network, to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return "", err
	}
	// A node's own rules answer a UDP packet that they do not let out twice: by
	// this error, and, where they refuse it, by what is read after it.
	text := cmp.Or(p.text, "hello\n")
	if _, err := io.WriteString(c, text); err != nil && !errors.Is(err, syscall.EPERM) {
		return "", err
	}
	buf := make([]byte, 512)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

// sentence is what the echo servers of the lab say.
var sentence = regexp.MustCompile(`^pod (\S+) at (\S+), you are (\S+)\s*$`)

// understand tells from what was heard who answered, and whom it saw.
func understand(p viptest.Packet, answer string) (viptest.Result, error) {
	words := sentence.FindStringSubmatch(answer)
	if words == nil {
		return viptest.Result{}, fmt.Errorf("understanding %q: not an echo server's", answer)
	}
	at, err := netip.ParseAddrPort(words[2])
	if err != nil {
		return viptest.Result{}, fmt.Errorf("understanding %q: %w", answer, err)
	}
	seen, err := netip.ParseAddrPort(words[3])
	if err != nil {
		return viptest.Result{}, fmt.Errorf("understanding %q: %w", answer, err)
	}
	if at == netip.AddrPortFrom(p.To.Addr, p.To.Port) {
		return viptest.Result{Action: viptest.Pass}, nil // a host by its own address
	}
	return viptest.Result{Action: viptest.Forward, Endpoint: at, SNAT: seen.Addr().Unmap() != p.From}, nil
}
