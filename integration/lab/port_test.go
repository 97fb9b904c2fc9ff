package lab

import "testing"

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
