package lab

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		takes       time.Duration // one call
		calls, most int64         // in a second; at once
	}{
		{"a machine that can", time.Millisecond, 101, 1},
		{"one that can't", time.Minute, loadAtOnce, loadAtOnce},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int64
				done := make(chan struct{})
				time.AfterFunc(time.Second+time.Millisecond, func() { close(done) })
				calls := Load(100, done, func(int) {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(test.takes)
					now.Add(-1)
				})
				if int64(calls) != test.calls || most.Load() != test.most || now.Load() != 0 {
					t.Errorf("%d calls, %d at once, %d under way at the end, want %d, %d, 0", calls, most.Load(), now.Load(), test.calls, test.most)
				}
			})
		})
	}
}
