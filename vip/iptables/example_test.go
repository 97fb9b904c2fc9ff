package iptables_test

import (
	"context"
	"fmt"
	"log/slog"

	"signpost/vip"
	"signpost/vip/iptables"
)

// A backend makes a whole state true, whatever the tables held before. It needs
// root, so this example is only compiled.
func ExampleBackend() {
	ctx := context.Background()
	backend := iptables.New(iptables.Config{Log: slog.Default()})
	if err := backend.Probe(ctx); err != nil {
		fmt.Println("mode iptables can't run here:", err)
		return
	}
	var state *vip.State // from a vip.Planner
	if err := backend.Apply(ctx, nil, state); err != nil {
		fmt.Println(err)
	}
}
