package flood

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/miekg/dns"
)

const (
	headerLen = 12
	// largest is a little more than the program reads.
	largest = 4200
)

// packets makes datagrams, most of them bad.
type packets struct {
	random *rand.Rand
	valid  [][]byte // queries that have answers
}

func newPackets(t *testing.T, seed uint64) *packets {
	t.Helper()
	p := &packets{random: rand.New(rand.NewPCG(seed, 0))}
	for name, kind := range map[string]uint16{
		"web.default.svc.cluster.local.":            dns.TypeA,
		"WEB.default.svc.cluster.local.":            dns.TypeAAAA,
		"db.default.svc.cluster.local.":             dns.TypeA,
		"_pg._tcp.db.default.svc.cluster.local.":    dns.TypeSRV,
		"_http._tcp.web.default.svc.cluster.local.": dns.TypeSRV,
		"11.0.96.10.in-addr.arpa.":                  dns.TypePTR,
		"cluster.local.":                            dns.TypeSOA,
		"dns-version.cluster.local.":                dns.TypeTXT,
		"default.svc.cluster.local.":                dns.TypeANY,
	} {
		for _, edns := range []bool{false, true} {
			p.valid = append(p.valid, query(t, name, kind, edns))
		}
	}
	return p
}

func query(t *testing.T, name string, kind uint16, edns bool) []byte {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, kind)
	if edns {
		m.SetEdns0(1232, true)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// next writes a datagram over b and returns it.
func (p *packets) next(b []byte) []byte {
	b = append(b[:0], p.valid[p.random.IntN(len(p.valid))]...)
	binary.BigEndian.PutUint16(b, uint16(p.random.Uint32()))
	kinds := [...]func([]byte) []byte{
		p.unchanged, p.unchanged, p.missing, p.missing, p.external, p.external, p.noise, p.noise,
		p.short, p.response, p.damaged, p.damaged, p.cut, p.loop, p.counts, p.options,
	}
	return kinds[p.random.IntN(len(kinds))](b)
}

func (p *packets) unchanged(b []byte) []byte { return b }

// missing asks for a name of the cluster that isn't there.
func (p *packets) missing(b []byte) []byte {
	return p.ask(b, fmt.Sprintf("\x08%08x\x07default\x03svc\x07cluster\x05local\x00", p.random.Uint32()))
}

// external asks for a name of others.
func (p *packets) external(b []byte) []byte {
	return p.ask(b, fmt.Sprintf("\x08%08x\x07example\x00", p.random.Uint32()))
}

// answered asks for a name of others that the upstream answers.
func (p *packets) answered(b []byte) []byte {
	return p.ask(append(b[:0], byte(p.random.Uint32()), byte(p.random.Uint32())), fmt.Sprintf("\x080%07x\x07example\x00", p.random.Uint32()>>4))
}

func (p *packets) ask(b []byte, name string) []byte {
	b = append(b[:2], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	b = append(b, name...)
	return append(b, 0, byte(1+27*p.random.IntN(2)), 0, 1) // A, AAAA
}

// noise is random throughout, now and then larger than what is read.
func (p *packets) noise(b []byte) []byte {
	n := p.random.IntN(300)
	if p.random.IntN(100) == 0 {
		n = p.random.IntN(largest)
	}
	return p.more(b[:0], n)
}

func (p *packets) more(b []byte, n int) []byte {
	for range n {
		b = append(b, byte(p.random.Uint32()))
	}
	return b
}

// short is less than a header, or nothing.
func (p *packets) short(b []byte) []byte { return b[:p.random.IntN(headerLen)] }

func (p *packets) response(b []byte) []byte {
	b[2] |= 0x80
	return b
}

// damaged has some other bytes.
func (p *packets) damaged(b []byte) []byte {
	for range 1 + p.random.IntN(8) {
		b[p.random.IntN(len(b))] = byte(p.random.Uint32())
	}
	return b
}

func (p *packets) cut(b []byte) []byte { return b[:headerLen+p.random.IntN(len(b)-headerLen)] }

// loop has a name that points to itself, or anywhere.
func (p *packets) loop(b []byte) []byte {
	at := headerLen
	if p.random.IntN(2) == 0 {
		at = p.random.IntN(1 << 14)
	}
	return append(b[:headerLen], 0xC0|byte(at>>8), byte(at), 0, 1, 0, 1)
}

// counts says that there are other numbers of records than there are.
func (p *packets) counts(b []byte) []byte {
	binary.BigEndian.PutUint16(b[4+2*p.random.IntN(4):], uint16(p.random.Uint32()))
	return b
}

// options has an OPT record with random options, whose length may be wrong by
// one.
func (p *packets) options(b []byte) []byte {
	n := 1 + p.random.IntN(200)
	b = append(b, 0, 0, 41, byte(p.random.Uint32()), 0, 0, byte(p.random.IntN(2)), 0, 0, 0, byte(n))
	binary.BigEndian.PutUint16(b[10:], 1)
	return p.more(b, n+p.random.IntN(3)-1)
}

// junk says whether the program must drop it without a word: less than a
// header, or a response (W1).
func junk(b []byte) bool { return len(b) < headerLen || b[2]&0x80 != 0 }
