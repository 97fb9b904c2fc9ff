package dnsserver

import (
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// unhex decodes test data.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCookieVectors checks the examples of RFC 9018 appendix A.
func TestCookieVectors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, key, client, option, want string
		now                             int64
	}{
		{"W18 A.1 new", "e5e973e5a6b2a43f48e7dc849e37bfcf", "198.51.100.100", "2464c4abcf10c957", "2464c4abcf10c957010000005cf79f111f8130c3eee29480", 1559731985},
		{"W18 A.2 renewed", "e5e973e5a6b2a43f48e7dc849e37bfcf", "198.51.100.100", "2464c4abcf10c957010000005cf79f111f8130c3eee29480", "2464c4abcf10c957010000005cf7a871d4a564a1442aca77", 1559734385},
		{"W18 A.3 reserved octets are hashed too", "e5e973e5a6b2a43f48e7dc849e37bfcf", "203.0.113.203", "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5", "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5", 1559728000},
		{"W18 A.4 IPv6, made with the secret before", "445536bcd2513298075a5d379663c962", "2001:db8:220:1:59de:d0f4:8769:82b8", "22681ab97d52c298010000005cf7c57926556bd0934c72f8", "22681ab97d52c298010000005cf7c609a6bb79d16625507a", 1559741961},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(tt.now, 0)
			jar := newCookieJar(func() time.Time { return now })
			copy(jar.secret.key[:], unhex(t, tt.key))
			copy(jar.past.key[:], unhex(t, "dd3bdf9344b678b185a6f5cb60fca715"))
			jar.secret.born, jar.past.born = now, now
			var c cookieOption
			if !c.read(unhex(t, tt.option)) {
				t.Fatal("not read")
			}
			got := jar.make(&c, netip.MustParseAddr(tt.client))
			if !jar.check(&c, netip.MustParseAddr(tt.client)) && c.n == cookieLen {
				t.Error("not good")
			}
			if hex.EncodeToString(got[:]) != tt.want {
				t.Errorf("cookie %x, want %s", got, tt.want)
			}
		})
	}
}

// TestCookieLife checks how long a cookie is good, for whom, and over a change
// of the secret.
func TestCookieLife(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	jar := newCookieJar(func() time.Time { return now })
	mine, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var c cookieOption
	c.read([]byte("12345678"))
	made := jar.make(&c, mine)
	c.read(made[:])
	steps := []struct {
		name   string
		after  time.Duration
		client netip.Addr
		good   bool
	}{
		{"W18 at once", 0, mine, true},
		{"W18 another client", 0, other, false},
		{"W18 at the end of its life", cookieLifetime, mine, true},
		{"W18 after it", cookieLifetime + time.Second, mine, false},
		{"W18 from the future", -cookieFuture - time.Second, mine, false},
	}
	start := now
	for _, s := range steps {
		now = start.Add(s.after)
		if got := jar.check(&c, s.client); got != s.good {
			t.Errorf("%s: good %v, want %v", s.name, got, s.good)
		}
	}
	now = start.Add(secretLifetime - time.Minute)
	made = jar.make(&c, mine)
	c.read(made[:])
	now = now.Add(2 * time.Minute)
	if !jar.check(&c, mine) {
		t.Error("W18 made with the secret before: not good")
	}
	c.data[20] ^= 1
	if jar.check(&c, mine) {
		t.Error("W18 forged: good")
	}
}

// TestCookies checks cookies over sockets: a whole one or none, and malformed
// ones (W18, B23).
func TestCookies(t *testing.T) {
	t.Parallel()
	s := startWith(t, configFor(), static(t, "@ 5 IN A 192.0.2.1"))
	ask := func(cookie string) *dns.Msg {
		m := askFor("a.example.", dns.TypeA, edns(1232, false))
		if cookie != "" {
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie}}
		}
		return queryUDP(t, addrOf(s), m)
	}
	cookieOf := func(m *dns.Msg) string {
		if opt := m.IsEdns0(); opt != nil && len(opt.Option) == 1 {
			return opt.Option[0].(*dns.EDNS0_COOKIE).Cookie
		}
		return ""
	}
	if got := cookieOf(ask("")); got != "" {
		t.Errorf("W17 cookie %q for a client without", got)
	}
	first := cookieOf(ask("0102030405060708"))
	if len(first) != 2*cookieLen || first[:16] != "0102030405060708" || first[16:24] != "01000000" {
		t.Fatalf("W18 B23 cookie %q, want the client's and one of ours", first)
	}
	if again := cookieOf(ask(first)); again != first {
		t.Errorf("W18 young cookie %q, want it back: %q", again, first)
	}
	if got := cookieOf(ask("0102030405060708" + "ff000000000000000000000000000000")); got[:16] != "0102030405060708" || got[16:18] != "01" {
		t.Errorf("W18 unknown version: %q", got)
	}
	for _, bad := range []string{"01", "010203040506070809", "0102030405060708" + "01020304050607"} {
		if m := ask(bad); m.Rcode != dns.RcodeFormatError {
			t.Errorf("W18 cookie of %d octets: %s, want FORMERR", len(bad)/2, brief(m))
		}
	}
	rejected := askFor("a.example.", dns.TypeTSIG, edns(1232, false))
	rejected.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}}
	if m := queryUDP(t, addrOf(s), rejected); m.Rcode != dns.RcodeNotImplemented || len(cookieOf(m)) != 2*cookieLen {
		t.Errorf("W18 rejected: %v", m)
	}
}

// TestSipHash checks the vectors of the paper and of its reference code.
func TestSipHash(t *testing.T) {
	t.Parallel()
	var key [16]byte
	var data []byte
	for i := range key {
		key[i] = byte(i)
	}
	for n, want := range map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5} {
		data = data[:0]
		for i := range n {
			data = append(data, byte(i))
		}
		if got := sipHash24(key, data); got != want {
			t.Errorf("%d octets: %x, want %x", n, got, want)
		}
	}
}

// FuzzCookie gives the reader any option: it is taken whole or not at all.
func FuzzCookie(f *testing.F) {
	f.Add([]byte("12345678"))
	f.Add([]byte("123456781234567812345678"))
	jar := newCookieJar(time.Now)
	client := netip.MustParseAddr("192.0.2.1")
	f.Fuzz(func(t *testing.T, b []byte) {
		var c cookieOption
		if !c.read(b) {
			if c.n != 0 {
				t.Error("a part was taken")
			}
			return
		}
		if jar.check(&c, client) {
			t.Error("a guessed cookie is good")
		}
		made := jar.make(&c, client)
		c.read(made[:])
		if !jar.check(&c, client) {
			t.Error("our own cookie isn't good")
		}
	})
}
