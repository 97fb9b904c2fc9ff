package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"signpost/discovery"
)

// Breakage is what another program may do to a dataplane (X02, X03).
type Breakage struct {
	Name string
	// Do is called on the host. It returns when the damage is done.
	Do func() error
	// Cuts: the kernel ends the connections that are open.
	Cuts bool
}

// healWithin is how soon a dataplane is as it should be after another program
// has left it alone.
const healWithin = 2 * time.Second

// heal damages a running program's dataplane in every way that the suite
// knows. It is repaired in time, and connections that are open stay so.
func (r *runner) heal(t *testing.T) {
	if len(r.suite.Breakages) == 0 {
		t.Skip("the suite knows no way in which others can damage this dataplane")
	}
	f := feature{
		world: balanced + threeEndpoints,
		packets: `
		p3      10.96.0.7:80/P       p1 p2 q1
		n1      10.96.0.7:80/P       p1 p2 q1 +snat
		outside 192.168.6.1:30080/P  p1 p2 q1 +snat
		outside 203.0.113.1:80/P     p1 p2 q1 +snat
		p3      10.96.0.7:81/P       refused`,
	}
	store, at := worldStore(t, f)
	r.fresh(t)
	p := r.launch(t, store, at)
	probes, contents := mustProbes(t, r, f), r.dump(t, node)
	for _, b := range r.suite.Breakages {
		t.Run(b.Name, func(t *testing.T) {
			open := r.open(t, "p4", "10.96.0.7:80")
			endpoint := open.say(t)
			if err := p.driver.on(b.Do); err != nil {
				t.Fatalf("damaging: %v", err)
			}
			took, err := r.until(t.Context(), func() error { return r.whole(t, probes, contents) })
			if err != nil {
				t.Fatalf("not healed after %s: %v", took, err)
			}
			t.Logf("healed after %s", took)
			if b.Cuts {
				return
			}
			if now := open.say(t); now != endpoint {
				t.Errorf("an open connection leads to %q, before to %q", now, endpoint)
			}
		})
	}
}

// whole reports what is wrong with the dataplane: what is sent, and, where the
// suite can tell, what is in the kernel.
func (r *runner) whole(t *testing.T, probes []probe, contents string) error {
	for _, p := range probes {
		if err := r.tryAlone(t.Context(), p); err != nil {
			return err
		}
	}
	if now := r.dump(t, node); now != contents {
		return fmt.Errorf("the kernel holds\n%s\nwant\n%s", now, contents)
	}
	return nil
}

// tryAlone sends a probe and waits no longer than for an answer to its first
// packet: what is lost in the meantime would be sent again after a second.
func (r *runner) tryAlone(ctx context.Context, p probe) error {
	if p.To.Protocol == discovery.SCTP {
		defer r.site.alone(p)()
	}
	return r.try(ctx, p, silence)
}

// until tries until there is no error, at most for the time that healing may
// take, and says how long that was.
func (r *runner) until(ctx context.Context, try func() error) (time.Duration, error) {
	start := time.Now()
	const pause = 20 * time.Millisecond
	for {
		err := try()
		took := time.Since(start)
		if err == nil || took > healWithin+r.suite.SyncPeriod {
			return took, err
		}
		select {
		case <-ctx.Done():
			return took, err
		case <-time.After(pause):
		}
	}
}
