package vip_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/viptest"
)

// TestHealthClock is X12: since when something is pending, and so whether the
// dataplane keeps up, is measured by the monotonic clock, whatever becomes of
// the time of day. (Not in a synctest bubble, which has one clock only.)
func TestHealthClock(t *testing.T) {
	t.Parallel()
	w, err := viptest.ParseWorld("node n1\nservice a/a ips=10.0.0.1 ports=80\n")
	if err != nil {
		t.Fatal(err)
	}
	store := discovery.NewStore()
	store.Update(func(tx *discovery.Tx) {
		for _, s := range w.Snapshot.Services.All() {
			tx.PutService(s)
		}
		tx.MarkSynced()
	})
	broken := &recorder{Fake: viptest.NewFake(), fail: func(_, _ *vip.State) error { return errors.New("no") }}
	controller := vip.NewController(vip.Config{Desired: store, Nodes: vip.NewCell(w.Node), Backend: broken})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx) }()
	for status := controller.Status(); status.LastError == nil; status = controller.Status() {
		select {
		case <-controller.Changed(status):
		case <-ctx.Done():
			t.Fatal("nothing failed")
		}
	}
	if pending := controller.Health().Pending; !strings.Contains(pending.String(), " m=") {
		t.Errorf("pending since %s, a time of day", pending)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
