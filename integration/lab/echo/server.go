package echo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Identity is a name and an address to answer on.
type Identity struct {
	Name string
	Addr netip.AddrPort
}

// Config says who a server is. TCP is always on.
type Config struct {
	Identities []Identity
	UDP        bool
	SCTP       bool // an error if the kernel has none
}

// Server answers until it is closed.
type Server struct {
	running sync.WaitGroup
	ready   map[string]*atomic.Bool // by name

	mu     sync.Mutex
	closed bool
	open   map[io.Closer]struct{} // listeners and connections
}

// Start listens on everything, in the network namespace of the calling thread,
// and answers in the background.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{ready: make(map[string]*atomic.Bool), open: make(map[io.Closer]struct{})}
	for _, id := range cfg.Identities {
		if s.ready[id.Name] == nil {
			s.ready[id.Name] = new(atomic.Bool)
			s.ready[id.Name].Store(true)
		}
		if err := s.listen(ctx, cfg, id); err != nil {
			return nil, errors.Join(fmt.Errorf("starting %q: %w", id.Name, err), s.Close())
		}
	}
	return s, nil
}

func (s *Server) listen(ctx context.Context, cfg Config, id Identity) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", id.Addr.String())
	if err != nil {
		return err
	}
	s.start(l, func() { s.accept(id.Name, l) })
	if cfg.UDP {
		c, err := config.ListenPacket(ctx, "udp", id.Addr.String())
		if err != nil {
			return err
		}
		s.start(c, func() { answerDatagrams(id.Name, c) })
	}
	if cfg.SCTP {
		l, err := listenSCTP(id.Addr)
		if err != nil {
			return err
		}
		s.start(l, func() { s.accept(id.Name, l) })
	}
	return nil
}

// start runs f, which ends when c is closed.
func (s *Server) start(c io.Closer, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return
	}
	s.open[c] = struct{}{}
	s.running.Go(func() {
		defer s.forget(c)
		f()
	})
}

func (s *Server) forget(c io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = c.Close()
	delete(s.open, c)
}

// Close ends all listeners and connections and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// SetReady makes all identities of a name answer /healthz with success or not.
func (s *Server) SetReady(name string, ready bool) {
	if r := s.ready[name]; r != nil {
		r.Store(ready)
	}
}

func (s *Server) accept(name string, l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client's trouble, or ours for a moment
		}
		s.start(c, func() { s.talk(name, c) })
	}
}

func answerDatagrams(name string, c net.PacketConn) {
	buf := make([]byte, 64<<10)
	for {
		_, from, err := c.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = io.WriteString(to{c, from}, Sentence(name, c.LocalAddr(), from))
		}
	}
}

type to struct {
	conn net.PacketConn
	addr net.Addr
}

func (t to) Write(p []byte) (int, error) { return t.conn.WriteTo(p, t.addr) }

// Sentence is what a server says, a line.
func Sentence(name string, local, remote net.Addr) string {
	return fmt.Sprintf("pod %s at %s, you are %s\n", name, local, remote)
}
