package kube

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes connections on to the API server, as long as a test lets it.
type relay struct {
	address string // where it listens
	to      string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
	running  sync.WaitGroup
}

// newRelay reserves an address and lets nobody through yet.
func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	r := &relay{address: "127.0.0.1:" + freePort(t), to: "127.0.0.1:" + to, conns: map[net.Conn]struct{}{}}
	t.Cleanup(r.close)
	return r
}

func (r *relay) url() string { return "https://" + r.address }

// open lets everybody through.
func (r *relay) open(t *testing.T) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	r.serve(listener)
}

// serve takes connections from a listener.
func (r *relay) serve(listener net.Listener) {
	r.mu.Lock()
	r.listener = listener
	r.mu.Unlock()
	r.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			r.running.Go(func() { r.pass(client) })
		}
	})
}

// pass joins a client with the server, until one of them goes.
func (r *relay) pass(client net.Conn) {
	server, err := net.Dial("tcp", r.to)
	if err != nil {
		_ = client.Close()
		return
	}
	r.mu.Lock()
	r.conns[client], r.conns[server] = struct{}{}, struct{}{}
	r.mu.Unlock()
	var both sync.WaitGroup
	join := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = client.Close(), server.Close()
	}
	both.Go(func() { join(server, client) })
	both.Go(func() { join(client, server) })
	both.Wait()
	r.mu.Lock()
	delete(r.conns, client)
	delete(r.conns, server)
	r.mu.Unlock()
}

// cut ends all connections; new ones are let through.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

// close ends all connections and refuses new ones.
func (r *relay) close() {
	r.mu.Lock()
	listener := r.listener
	r.listener = nil
	r.mu.Unlock()
	if listener == nil {
		return
	}
	_ = listener.Close()
	r.cut()
	r.running.Wait()
}
