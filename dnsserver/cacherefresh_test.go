package dnsserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// TestCachePrefetch checks F4: what is asked for often is refreshed before it
// expires, once, and without anyone waiting.
func TestCachePrefetch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		hits  int           // in the first minute
		at    time.Duration // of the last hit, after which a refresh may have come
		asked int
	}{
		{"F4 popular, close to its end", 3, 95 * time.Second, 2},
		{"F4 popular, too early", 3, 80 * time.Second, 1},
		{"F4 not popular", 1, 95 * time.Second, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rig := newCacheRig(t, func(c *CacheConfig) { c.Prefetch.Amount = 4 }, saying(t, 0, "@ 100 IN A 192.0.2.1"))
				start := time.Now()
				rig.ask("a.example.", dns.TypeA)
				for range tt.hits {
					time.Sleep(20 * time.Second)
					rig.ask("a.example.", dns.TypeA)
				}
				time.Sleep(tt.at - time.Since(start))
				for range 2 {
					if got := oneLine(rig.ask("a.example.", dns.TypeA)); got == "none" {
						t.Error("no answer")
					}
				}
				synctest.Wait()
				if rig.count() != tt.asked {
					t.Errorf("asked %d times, want %d", rig.count(), tt.asked)
				}
			})
		})
	}
	t.Run("F4 a gap starts the count again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rig := newCacheRig(t, func(c *CacheConfig) { c.Prefetch.Amount = 2 }, saying(t, 0, "@ 100 IN A 192.0.2.1"))
			rig.ask("a.example.", dns.TypeA)
			rig.ask("a.example.", dns.TypeA)
			time.Sleep(95 * time.Second)
			rig.ask("a.example.", dns.TypeA)
			synctest.Wait()
			if rig.count() != 1 {
				t.Errorf("asked %d times, want 1", rig.count())
			}
		})
	})
}

// TestCacheStale checks F4 and RFC 8767: expired answers while upstreams fail
// or are slow.
func TestCacheStale(t *testing.T) {
	t.Parallel()
	slowly := func(reply func(*dns.Msg) *dns.Msg) func(*dns.Msg) *dns.Msg {
		return func(r *dns.Msg) *dns.Msg {
			time.Sleep(time.Second)
			return reply(r)
		}
	}
	fresh, broken := saying(t, 0, "@ 60 IN A 192.0.2.2"), saying(t, dns.RcodeServerFailure)
	const old, oldAfter30 = "NOERROR, 0 192.0.2.1", "NOERROR, 30 192.0.2.1"
	for _, tt := range []struct {
		name  string
		set   func(*StaleConfig)
		then  func(*dns.Msg) *dns.Msg // what upstream says after the answer has expired
		first string                  // the answer to the first query then
		took  time.Duration
		later string // the answer two seconds after that
	}{
		{"F4 immediate", func(*StaleConfig) {}, slowly(fresh), old, 0, "NOERROR, 59 192.0.2.2"},
		{"F4 immediate, upstream fails", func(*StaleConfig) {}, broken, old, 0, old},
		{"F4 the TTL of stale answers", func(s *StaleConfig) { s.TTL = 30 * time.Second }, broken, oldAfter30, 0, oldAfter30},
		{"F4 verify", func(s *StaleConfig) { s.Verify = true }, slowly(fresh), "NOERROR, 60 192.0.2.2", time.Second, "NOERROR, 58 192.0.2.2"},
		{"F4 verify, upstream fails", func(s *StaleConfig) { s.Verify = true }, slowly(broken), old, time.Second, old},
		{
			"F4 verify with a timeout", func(s *StaleConfig) { s.Verify, s.Timeout = true, 100*time.Millisecond }, slowly(fresh),
			old, 100 * time.Millisecond, "NOERROR, 59 192.0.2.2",
		},
		{"F4 too old", func(s *StaleConfig) { s.For = time.Second }, broken, "SERVFAIL", 0, "SERVFAIL"},
		{"A32 a denial replaces it", func(*StaleConfig) {}, saying(t, dns.RcodeNameError, soa90), old, 0, "NXDOMAIN, ns 18 SOA"},
		{"F4 prefer_positive: it doesn't", func(s *StaleConfig) { s.PreferPositive = true }, saying(t, dns.RcodeNameError, soa90), old, 0, old},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rig := newCacheRig(t, func(c *CacheConfig) {
					c.Stale.For = time.Hour
					tt.set(&c.Stale)
				}, saying(t, 0, record60))
				rig.ask("a.example.", dns.TypeA)
				rig.say(tt.then)
				time.Sleep(62 * time.Second)
				start := time.Now()
				if got := oneLine(rig.ask("a.example.", dns.TypeA)); got != tt.first || time.Since(start) != tt.took {
					t.Errorf("first %s after %v; want %s after %v", got, time.Since(start), tt.first, tt.took)
				}
				time.Sleep(2 * time.Second)
				if got := oneLine(rig.ask("a.example.", dns.TypeA)); got != tt.later {
					t.Errorf("later %s, want %s", got, tt.later)
				}
				synctest.Wait()
			})
		})
	}
	t.Run("F4 a failed refresh isn't tried again at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rig := newCacheRig(t, func(c *CacheConfig) { c.Stale.For, c.Stale.Recheck = time.Hour, 30*time.Second }, saying(t, 0, record60))
			rig.ask("a.example.", dns.TypeA)
			rig.say(broken)
			time.Sleep(61 * time.Second)
			for range 29 {
				rig.ask("a.example.", dns.TypeA)
				synctest.Wait()
				time.Sleep(time.Second)
			}
			if rig.count() != 2 {
				t.Errorf("asked %d times, want 2", rig.count())
			}
			time.Sleep(2 * time.Second)
			rig.ask("a.example.", dns.TypeA)
			synctest.Wait()
			if rig.count() != 3 {
				t.Errorf("asked %d times, want 3", rig.count())
			}
		})
	})
}
