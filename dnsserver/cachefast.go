package dnsserver

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/miekg/dns"
)

// fast is the cache's part in the fast path; nil where there is no cache.
func (c *cache) fast() fastAnswerer {
	if c == nil {
		return nil
	}
	return c
}

// answerFast implements [fastAnswerer]: the reply is the bytes that are kept
// behind the question as this client wrote it. Whatever takes more than that
// is the chain's: what has expired or is to be refreshed, what doesn't fit,
// and requests that the cache has nothing to do with.
func (c *cache) answerFast(q *fastQuery, dst []byte) (fastReply, bool) {
	if !c.takesFast(q) {
		return fastReply{}, false
	}
	var key cacheKey
	flags := binary.BigEndian.Uint16(q.req[2:])
	key.set(q.name.wire[:q.name.size], q.in.qtype, q.in.qclass, q.in.edns.do, flags&flagCD != 0)
	hash := c.store.hash(&key)
	e, now := c.store.find(hash, &key), time.Now()
	if e == nil || e.expired(now) || e.kind == cacheFailure || len(e.wire) > q.limit ||
		e.byChain && q.route.fast.shuffle || c.popular(e, now) {
		return fastReply{}, false
	}
	kept := binary.BigEndian.Uint16(e.wire[2:])
	said := kept & (flagRA | rcodeMask)
	if flags&flagAD != 0 || q.in.edns.do { // as replyFlags has it
		said |= kept & flagAD
	}
	wire := q.begin(dst, said)
	wire = append(wire, e.wire[len(wire):]...)
	copy(wire[6:headerLen], e.wire[6:headerLen])
	setTTLs(wire, e.ttls, e.left(now, c.conf.KeepTTL))
	if q.route.fast.shuffle {
		for i := range e.sets {
			e.sets[i].shuffle(wire)
		}
	}
	if q.route.cacheCounts != nil {
		q.route.cacheCounts.at(hash).hit(e.kind)
	}
	return fastReply{wire: wire, rcode: int(kept & rcodeMask), who: answeredByCache}, true
}

// takesFast is takes, for requests that aren't unpacked. Those with options of
// EDNS don't come here, nor does HINFO.
func (c *cache) takesFast(q *fastQuery) bool {
	return binary.BigEndian.Uint16(q.req[2:])&flagRD != 0 && len(c.conf.Zones) == 0
}

// rdataSet is a set of addresses: where the data of each is.
type rdataSet struct {
	size int
	at   []uint16
}

// shuffle exchanges addresses, so that clients which take the first one spread
// over all (G10). The other parts of the records are the same in all of them.
func (s *rdataSet) shuffle(wire []byte) {
	var held [net.IPv6len]byte
	for i := len(s.at) - 1; i > 0; i-- {
		a, b := s.data(wire, i), s.data(wire, rand.IntN(i+1))
		copy(held[:], a)
		copy(a, b)
		copy(b, held[:s.size])
	}
}

func (s *rdataSet) data(wire []byte, i int) []byte {
	return wire[s.at[i] : int(s.at[i])+s.size]
}

// setFinder collects the sets while records go by.
type setFinder struct {
	owner   string
	rtype   uint16
	current rdataSet
	sets    []rdataSet
	others  bool
}

// add takes in the record at off.
func (f *setFinder) add(wire []byte, off int, rr record) error {
	owner, _, err := dns.UnpackDomainName(wire, off)
	if err != nil {
		return fmt.Errorf("packing answer: owner at %d: %w", off, err)
	}
	same := owner == f.owner && rr.rtype == f.rtype
	if !same {
		f.end()
		f.owner, f.rtype, f.current = owner, rr.rtype, rdataSet{size: rr.end - rr.data}
	}
	switch rr.rtype {
	case dns.TypeA, dns.TypeAAAA:
		f.current.at = append(f.current.at, uint16(rr.data))
	case dns.TypeMX: // names in data may be compressed against each other
		f.others = f.others || same
	}
	return nil
}

// end closes the present set; one record alone is none.
func (f *setFinder) end() {
	if len(f.current.at) > 1 {
		f.sets = append(f.sets, f.current)
	}
	f.current = rdataSet{}
}

// found returns the sets, and whether there are some that can't be shuffled in
// place.
func (f *setFinder) found() (sets []rdataSet, others bool) {
	f.end()
	return f.sets, f.others
}
