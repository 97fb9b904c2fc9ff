package dataplane

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"signpost/vip/viptest"
)

// TestClaim is L-08: one process a network namespace.
func TestClaim(t *testing.T) {
	viptest.InNamespace(t)
	first, err := TakeClaim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var taken *TakenError
	if _, err := TakeClaim(t.Context()); !errors.As(err, &taken) || int(taken.PID) != os.Getpid() {
		t.Errorf("the second: %v, want that process %d has it", err, os.Getpid())
	}
	first.Release()
	again, err := TakeClaim(t.Context())
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	again.Release()
	(*Claim)(nil).Release()
}

// TestHold: the table that keeps old connections translated, and its end.
func TestHold(t *testing.T) {
	viptest.InNamespace(t)
	tables := func() string {
		out, err := exec.CommandContext(t.Context(), "nft", "list", "tables").CombinedOutput()
		if err != nil {
			t.Fatalf("listing the tables: %v: %s", err, out)
		}
		return string(out)
	}
	for range 2 { // each is idempotent
		if err := hold(); err != nil {
			t.Fatal(err)
		}
	}
	if got := tables(); got != "table inet signpost-hold\n" {
		t.Errorf("tables %q", got)
	}
	for range 2 {
		if err := letGo(); err != nil {
			t.Fatal(err)
		}
	}
	if got := tables(); got != "" {
		t.Errorf("tables %q, want none", got)
	}
}
