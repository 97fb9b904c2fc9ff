package dnsserver

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// raw joins hex strings; spaces are for the reader.
func raw(parts ...string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// Pieces of messages in hex.
const (
	hexID    = "beef"
	hexQuery = hexID + "0100" // RD
	hexOne   = "0001 0000 0000 0000"
	hexOPT1  = "0001 0000 0000 0001"
	hexName  = "03777777 076578616d706c65 00" // www.example.
	hexA     = "0001 0001"
	hexOPT   = "00 0029 1000 00000000 0000" // size 4096
)

// TestRequests sends raw bytes and looks at the raw reply: the rows of
// dns-requirements §8 that bytes alone decide, over both transports.
func TestRequests(t *testing.T) {
	t.Parallel()
	const dropped = -1
	longName := strings.Repeat("3f"+strings.Repeat("61", 63), 4) + "00" // 257 octets
	longest := strings.Repeat("3f"+strings.Repeat("61", 63), 3) + "3d" + strings.Repeat("61", 61) + "00"
	tests := []struct {
		name  string
		in    []byte
		rcode int
		want  []byte // the whole reply, where it is to be exact
	}{
		{"W1 response", raw(hexID, "8180", hexOne, hexName, hexA), dropped, nil},
		{"W1 response with another opcode", raw(hexID, "a000", hexOne, hexName, hexA), dropped, nil},
		{"W2 IQUERY", raw(hexID, "0900", hexOne, hexName, hexA), dns.RcodeNotImplemented, raw(hexID, "8904", "0000 0000 0000 0000")},
		{"W2 STATUS", raw(hexID, "1000", hexOne, hexName, hexA), dns.RcodeNotImplemented, raw(hexID, "9004", "0000 0000 0000 0000")},
		{"W2 opcode 3", raw(hexID, "1800", hexOne, hexName, hexA), dns.RcodeNotImplemented, nil},
		{"W2 UPDATE", raw(hexID, "2800", "0001 0000 0005 0000", hexName, hexA), dns.RcodeNotImplemented, raw(hexID, "a804", "0000 0000 0000 0000")},
		{"W2 DSO", raw(hexID, "3000", "0000 0000 0000 0000"), dns.RcodeNotImplemented, nil},
		{"W2 opcode 15", raw(hexID, "7900", hexOne, hexName, hexA), dns.RcodeNotImplemented, nil},
		{"W3 B20 NOTIFY", raw(hexID, "2400", hexOne, hexName, "0006 0001"), dns.RcodeNotImplemented, raw(hexID, "a004", "0000 0000 0000 0000")},
		{"W4 no question", raw(hexQuery, "0000 0000 0000 0000"), dns.RcodeFormatError, raw(hexID, "8101", "0000 0000 0000 0000")},
		{"W4 two questions", raw(hexQuery, "0002 0000 0000 0000", hexName, hexA, hexName, hexA), dns.RcodeFormatError, raw(hexID, "8101", "0000 0000 0000 0000")},
		{"W4 no question but a cookie", raw(hexQuery, "0000 0000 0000 0001", "00 0029 1000 00000000 000c 000a 0008 0102030405060708"), dns.RcodeFormatError, nil},
		{"W5 empty", nil, dropped, nil},
		{"W5 11 octets", raw(hexQuery, "0001 0000 0000 00"), dropped, nil},
		{"W6 B22 header only", raw(hexQuery, hexOne), dns.RcodeFormatError, raw(hexID, "8101", "0000 0000 0000 0000")},
		{"W7 cut in the name", raw(hexQuery, hexOne, "0377"), dns.RcodeFormatError, nil},
		{"W7 cut before the type", raw(hexQuery, hexOne, hexName), dns.RcodeFormatError, nil},
		{"W7 cut in the class", raw(hexQuery, hexOne, hexName, "0001 00"), dns.RcodeFormatError, nil},
		{"W7 pointer to itself", raw(hexQuery, hexOne, "c00c", hexA), dns.RcodeFormatError, nil},
		{"W7 pointer loop", raw(hexQuery, hexOne, "0161 c00c", hexA), dns.RcodeFormatError, nil},
		{"W7 pointer forward", raw(hexQuery, hexOne, "c012", hexA, hexName), dns.RcodeFormatError, nil},
		{"W7 pointer into the header", raw(hexQuery, hexOne, "c004", hexA), dns.RcodeFormatError, nil},
		{"W7 label type 01", raw(hexQuery, hexOne, "4161", hexA), dns.RcodeFormatError, nil},
		{"W7 label type 10", raw(hexQuery, hexOne, "8161", hexA), dns.RcodeFormatError, nil},
		{"W7 name of 257 octets", raw(hexQuery, hexOne, longName, hexA), dns.RcodeFormatError, nil},
		{"W7 name of 255 octets", raw(hexQuery, hexOne, longest, hexA), dns.RcodeSuccess, nil},
		{"W8 two answers", raw(hexQuery, "0001 0002 0000 0000", hexName, hexA), dns.RcodeFormatError, nil},
		{"W8 two authorities", raw(hexQuery, "0001 0000 0002 0000", hexName, hexA), dns.RcodeFormatError, nil},
		{"W8 three additional", raw(hexQuery, "0001 0000 0000 0003", hexName, hexA), dns.RcodeFormatError, nil},
		{"W8 count without record", raw(hexQuery, "0001 0000 0000 0001", hexName, hexA), dns.RcodeFormatError, nil},
		{"W8 answer whose name loops", raw(hexQuery, "0001 0001 0000 0000", hexName, hexA, "c01d", hexA, "00000000 0000"), dns.RcodeFormatError, nil},
		{"W9 trailing octets", raw(hexQuery, hexOne, hexName, hexA, "deadbeef"), dns.RcodeSuccess, nil},
		{"W10 CH", raw(hexQuery, hexOne, hexName, "0010 0003"), dns.RcodeRefused, raw(hexID, "8105", hexOne, hexName, "0010 0003")},
		{"W10 HS", raw(hexQuery, hexOne, hexName, "0001 0004"), dns.RcodeRefused, nil},
		{"W10 NONE", raw(hexQuery, hexOne, hexName, "0001 00fe"), dns.RcodeRefused, nil},
		{"W10 ANY", raw(hexQuery, hexOne, hexName, "0001 00ff"), dns.RcodeRefused, nil},
		{"W10 class 0", raw(hexQuery, hexOne, hexName, "0001 0000"), dns.RcodeRefused, nil},
		{"W11 B24 type 0", raw(hexQuery, hexOne, hexName, "0000 0001"), dns.RcodeFormatError, nil},
		{"W11 B24 type OPT", raw(hexQuery, hexOne, hexName, "0029 0001"), dns.RcodeFormatError, nil},
		{"W11 B24 type TKEY", raw(hexQuery, hexOne, hexName, "00f9 0001"), dns.RcodeNotImplemented, nil},
		{"W11 B24 type TSIG", raw(hexQuery, hexOne, hexName, "00fa 0001"), dns.RcodeNotImplemented, nil},
		{
			"W12 EDNS version 1", raw(hexQuery, hexOPT1, hexName, hexA, "00 0029 1000 00010000 0000"), dns.RcodeBadVers & 0xF,
			raw(hexID, "8100", hexOPT1, hexName, hexA, "00 0029 04d0 01000000 0000"),
		},
		{
			"W12 EDNS version 255, DO", raw(hexQuery, hexOPT1, hexName, hexA, "00 0029 1000 00ff8000 0000"), dns.RcodeBadVers & 0xF,
			raw(hexID, "8100", hexOPT1, hexName, hexA, "00 0029 04d0 01008000 0000"),
		},
		{"W13 B21 two OPT", raw(hexQuery, "0001 0000 0000 0002", hexName, hexA, hexOPT, hexOPT), dns.RcodeFormatError, nil},
		{"W13 OPT as an answer", raw(hexQuery, "0001 0001 0000 0000", hexName, hexA, hexOPT), dns.RcodeFormatError, nil},
		{"W14 OPT RDLEN beyond the message", raw(hexQuery, hexOPT1, hexName, hexA, "00 0029 1000 00000000 0010"), dns.RcodeFormatError, nil},
		{"W14 option beyond RDLEN", raw(hexQuery, hexOPT1, hexName, hexA, "00 0029 1000 00000000 0005 0003 0010 00"), dns.RcodeFormatError, nil},
		{"W14 option header cut", raw(hexQuery, hexOPT1, hexName, hexA, "00 0029 1000 00000000 0002 0003"), dns.RcodeFormatError, nil},
		{"W15 OPT owner not root", raw(hexQuery, hexOPT1, hexName, hexA, "0161 00 0029 1000 00000000 0000"), dns.RcodeFormatError, nil},
		{"W15 OPT owner a pointer", raw(hexQuery, hexOPT1, hexName, hexA, "c018 0029 1000 00000000 0000"), dns.RcodeFormatError, nil},
		{"W25 AXFR", raw(hexQuery, hexOne, hexName, "00fc 0001"), dns.RcodeRefused, nil},
		{"W25 IXFR", raw(hexQuery, "0001 0000 0001 0000", hexName, "00fb 0001", "c00c 0006 0001 00000000 0018 c00c c00c 00000001 00000001 00000001 00000001 00000001"), dns.RcodeRefused, nil},
		{
			"W10 class CH keeps our OPT", raw(hexQuery, hexOPT1, hexName, "0010 0003", hexOPT), dns.RcodeRefused,
			raw(hexID, "8105", hexOPT1, hexName, "0010 0003", "00 0029 04d0 00000000 0000"),
		},
	}
	s := startWith(t, configFor(), refuseTransfer(static(t, "@ 5 IN A 192.0.2.1")))
	to := addrOf(s)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.rcode == dropped {
				wantDropped(t, s, tt.in)
				return
			}
			checkReply(t, "udp", tt.in, exchangeUDP(t, to, tt.in), tt.rcode, tt.want)
			c := dialTCP(t, to)
			c.send(frame(tt.in))
			checkReply(t, "tcp", tt.in, c.recv(), tt.rcode, tt.want)
		})
	}
}

// wantDropped checks that nothing comes back over UDP, and that a TCP
// connection ends.
func wantDropped(t *testing.T, s *Server, in []byte) {
	t.Helper()
	c := dialUDP(t, addrOf(s))
	_, _ = c.Write(in)
	_ = c.SetReadDeadline(time.Now().Add(silence))
	if n, err := c.Read(make([]byte, 512)); err == nil {
		t.Errorf("udp: %d octets of reply", n)
	}
	tc := dialTCP(t, addrOf(s))
	tc.send(frame(in))
	tc.wantEOF()
}

func checkReply(t *testing.T, over string, in, got []byte, rcode int, want []byte) {
	t.Helper()
	if want != nil {
		if !bytes.Equal(got, want) {
			t.Errorf("%s: reply\n%x, want\n%x", over, got, want)
		}
		return
	}
	if !bytes.Equal(got[:2], in[:2]) || got[2]&0x80 == 0 || int(got[3]&0xF) != rcode {
		t.Errorf("%s: reply header %x; want id %x, QR and rcode %d", over, got[:4], in[:2], rcode)
	}
	if got[2]&0x78 != in[2]&0x78 {
		t.Errorf("%s: opcode %x; want that of %x (W2)", over, got[2], in[2])
	}
	if rcode != dns.RcodeSuccess && !slices.Equal(got[6:10], []byte{0, 0, 0, 0}) {
		t.Errorf("%s: records in an error reply: %x", over, got)
	}
}

// TestWireHeader checks G1 and G3: what is copied from the request, and what
// never is.
func TestWireHeader(t *testing.T) {
	t.Parallel()
	s := startWith(t, configFor(), static(t, "@ 5 IN A 192.0.2.1"))
	for _, tt := range []struct {
		name      string
		flags     string
		wantFlags string
	}{
		{"G1 plain", "0000", "8400"},
		{"G1 RD copied", "0100", "8500"},
		{"G1 CD copied", "0010", "8410"},
		{"G1 AD not copied", "0020", "8400"},
		{"G1 Z not copied", "0040", "8400"},
		{"G1 RA, TC and AA of a request ignored", "0680", "8400"},
		{"G1 rcode of a request ignored", "000f", "8400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := exchangeUDP(t, addrOf(s), raw(hexID, tt.flags, hexOne, "0357775707", "4578416d506c45 00", hexA))
			if want := raw(hexID, tt.wantFlags); !bytes.Equal(got[:4], want) {
				t.Errorf("header %x, want %x", got[:4], want)
			}
			if want := raw("0357775707", "4578416d506c45 00", hexA); !bytes.Equal(got[12:12+len(want)], want) {
				t.Errorf("G3: question %x, want the bytes of the request %x", got[12:], want)
			}
			if owner := got[29:31]; !bytes.Equal(owner, raw("c00c")) {
				t.Errorf("G3: owner %x, want a pointer to the question", owner)
			}
		})
	}
}

// TestOddLabels checks W27: labels are octets, whatever is in them.
func TestOddLabels(t *testing.T) {
	t.Parallel()
	s := startWith(t, configFor(), dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetRcode(r, dns.RcodeNameError)
		m.Answer = []dns.RR{&dns.TXT{
			Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{r.Question[0].Name},
		}}
		_ = w.WriteMsg(m)
	}))
	for _, tt := range []struct{ name, label, text string }{
		{"W27 dot in a label", "0b 73766331 2e 746573746e73", `svc1\.testns.`},
		{"W27 NUL", "03 610062", `a\000b.`},
		{"W27 backslash", "03 615c62", `a\\b.`},
		{"W27 high octets", "02 fffe", `\255\254.`},
		{"W27 space and quote", "03 202261", `\ \"a.`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			question := raw(tt.label, "00", "0010 0001")
			got := exchangeUDP(t, addrOf(s), append(raw(hexQuery, hexOne), question...))
			if !bytes.Equal(got[12:12+len(question)], question) {
				t.Errorf("question %x, want %x", got[12:], question)
			}
			m := unpack(t, got)
			if m.Rcode != dns.RcodeNameError || m.Question[0].Name != tt.text || m.Answer[0].Header().Name != tt.text {
				t.Errorf("reply %v, want NXDOMAIN for %s", m, tt.text)
			}
		})
	}
}
