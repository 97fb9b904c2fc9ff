package lab

import (
	"net"
	"testing"
)

// TestClientPorts: no port comes twice while thousands of others are in use.
func TestClientPorts(t *testing.T) {
	var ports ClientPorts
	given := map[int]bool{}
	for range 19000 {
		port := ports.Next()
		if port < 11000 || port >= 30000 || given[port] {
			t.Fatalf("%d is a port of others, or was given before", port)
		}
		given[port] = true
	}
}

// TestFreePort finds ports while UDP sockets have very many.
func TestFreePort(t *testing.T) {
	for range 1000 {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range 500 {
		if _, err := FreePort(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
