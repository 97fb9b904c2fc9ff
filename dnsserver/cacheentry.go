package dnsserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// cacheKey is a question in comparable form: the name on the wire in lower
// case, type, class, and whether DO and CD were set (F3).
type cacheKey struct {
	buf [maxNameLen + 5]byte
	n   int
}

// set makes the key from a name on the wire.
func (k *cacheKey) set(name []byte, qtype, qclass uint16, do, cd bool) {
	n := copy(k.buf[:maxNameLen], name)
	foldASCII(k.buf[:n])
	binary.BigEndian.PutUint16(k.buf[n:], qtype)
	binary.BigEndian.PutUint16(k.buf[n+2:], qclass)
	var flags byte
	if do {
		flags |= 1
	}
	if cd {
		flags |= 2
	}
	k.buf[n+4] = flags
	k.n = n + 5
}

// setQuestion makes the key of a request; false means that its name can't be
// one.
func (k *cacheKey) setQuestion(r *dns.Msg) bool {
	var name [maxNameLen + 1]byte
	n, err := dns.PackDomainName(r.Question[0].Name, name[:], 0, nil, false)
	if err != nil || n > maxNameLen {
		return false
	}
	opt := r.IsEdns0()
	k.set(name[:n], r.Question[0].Qtype, r.Question[0].Qclass, opt != nil && opt.Do(), r.CheckingDisabled)
	return true
}

func (k *cacheKey) bytes() []byte { return k.buf[:k.n] }

// foldASCII makes letters lower case. Octets that are lengths of labels are
// below 'A'.
func foldASCII(b []byte) {
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
}

// cacheKind is what an answer is to a cache.
type cacheKind uint8

const (
	cacheNothing cacheKind = iota // not to be kept
	cacheSuccess
	cacheDenial
	cacheFailure
)

// cacheEntry is an answer that is kept: packed, so that it takes little room
// and a hit can be sent as it is. Only its atomics change.
type cacheEntry struct {
	key  string
	kind cacheKind
	// wire is the reply without OPT, with the question in front that it came
	// for; ttls are the offsets of its TTLs.
	wire []byte
	ttls []uint16
	// sets are the RRsets whose addresses may change places; byChain is set when
	// there are others to shuffle.
	sets    []rdataSet
	byChain bool
	// ttl is what the answer carried when it was stored.
	ttl     time.Duration
	stored  time.Time
	expires time.Time

	hits    atomic.Int32 // without a gap
	lastHit atomic.Int64 // since stored
	retryAt atomic.Int64 // since stored: no refresh before
}

// newCacheEntry packs an answer. Its records all get one TTL: an answer is
// valid as a whole or not at all.
func newCacheEntry(key *cacheKey, kind cacheKind, m *dns.Msg, ttl time.Duration, now time.Time) (*cacheEntry, error) {
	kept := dns.Msg{MsgHdr: m.MsgHdr, Question: m.Question, Answer: m.Answer, Ns: m.Ns, Extra: withoutOPT(m.Extra), Compress: true}
	kept.Response, kept.Truncated = true, false
	kept.Authoritative = false // we only repeat it
	packed, err := kept.Pack()
	if err != nil {
		return nil, fmt.Errorf("packing answer: %w", err)
	}
	e := &cacheEntry{
		key: string(key.bytes()), kind: kind, wire: append(make([]byte, 0, len(packed)), packed...),
		ttl: ttl, stored: now, expires: now.Add(ttl),
	}
	return e, e.index()
}

// index walks the records: it gives all the same TTL and finds the sets of
// addresses.
func (e *cacheEntry) index() error {
	off, ok := skipName(e.wire, headerLen, false)
	if !ok {
		return errors.New("packing answer: no question")
	}
	off += 4 // type and class
	n := 0
	for at := 6; at < headerLen; at += 2 {
		n += int(binary.BigEndian.Uint16(e.wire[at:]))
	}
	e.ttls = make([]uint16, 0, n)
	var sets setFinder
	for range n {
		rr, ok := readRecord(e.wire, off)
		if !ok || rr.end > math.MaxUint16 {
			return fmt.Errorf("packing answer: record at %d: out of bounds", off)
		}
		e.ttls = append(e.ttls, uint16(rr.fixed+4))
		if err := sets.add(e.wire, off, rr); err != nil {
			return err
		}
		off = rr.end
	}
	e.sets, e.byChain = sets.found()
	setTTLs(e.wire, e.ttls, seconds(e.ttl))
	return nil
}

// setTTLs writes a TTL at the offsets.
func setTTLs(wire []byte, at []uint16, ttl uint32) {
	for _, off := range at {
		binary.BigEndian.PutUint32(wire[off:], ttl)
	}
}

// seconds is a duration as a TTL.
func seconds(d time.Duration) uint32 { return uint32(max(d, 0) / time.Second) }

// left is the TTL that a client gets now.
func (e *cacheEntry) left(now time.Time, keep bool) uint32 {
	if keep {
		return seconds(e.ttl)
	}
	return seconds(e.ttl - now.Sub(e.stored).Truncate(time.Second))
}

// message unpacks the answer for the slow path, behind the question as this
// client wrote it: names that are compressed against it follow (G3).
func (e *cacheEntry) message(r *dns.Msg, ttl uint32) (*dns.Msg, error) {
	wire := append(make([]byte, 0, len(e.wire)), e.wire...)
	setTTLs(wire, e.ttls, ttl)
	if _, err := dns.PackDomainName(r.Question[0].Name, wire, headerLen, nil, false); err != nil {
		return nil, fmt.Errorf("packing question: %w", err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		return nil, fmt.Errorf("unpacking answer: %w", err)
	}
	m.Id, m.Opcode = r.Id, r.Opcode
	m.RecursionDesired, m.CheckingDisabled = r.RecursionDesired, r.CheckingDisabled
	m.Question = r.Question[:1]
	return m, nil
}

// size is what the entry counts for.
func (e *cacheEntry) size() int { return len(e.key) + len(e.wire) + 4*len(e.ttls) }

// classify says what an answer is and how long it is valid by itself: the
// lowest TTL, for denials that of RFC 2308 5.
func classify(m *dns.Msg, q dns.Question) (cacheKind, time.Duration) {
	if m.Truncated || len(m.Question) != 1 || !sameQuestion(m.Question[0], q) {
		return cacheNothing, 0
	}
	switch m.Rcode {
	case dns.RcodeServerFailure:
		return cacheFailure, 0
	case dns.RcodeSuccess, dns.RcodeNameError:
	default:
		return cacheNothing, 0
	}
	if m.Rcode == dns.RcodeSuccess && hasAnswer(m, q.Qtype) {
		return cacheSuccess, lowestTTL(m.Answer, m.Ns, m.Extra)
	}
	for _, rr := range m.Ns {
		// Without an SOA nobody says how long, and a referral isn't an answer.
		if soa, ok := rr.(*dns.SOA); ok {
			return cacheDenial, min(lowestTTL(m.Answer, m.Ns), saneTTL(soa.Minttl))
		}
	}
	return cacheNothing, 0
}

// hasAnswer reports whether there are records of the type, not only aliases on
// the way to none.
func hasAnswer(m *dns.Msg, qtype uint16) bool {
	for _, rr := range m.Answer {
		if t := rr.Header().Rrtype; t == qtype || qtype == dns.TypeANY {
			return true
		}
	}
	return false
}

// lowestTTL is the least TTL of all records but OPT.
func lowestTTL(sections ...[]dns.RR) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, rrs := range sections {
		for _, rr := range rrs {
			if h := rr.Header(); h.Rrtype != dns.TypeOPT {
				least = min(least, saneTTL(h.Ttl))
			}
		}
	}
	return least
}

// saneTTL is a TTL as a duration; one with the high bit set is none
// (RFC 2181 8).
func saneTTL(ttl uint32) time.Duration {
	if ttl > math.MaxInt32 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}
