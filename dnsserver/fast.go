package dnsserver

import (
	"encoding/binary"
	"reflect"
	"strings"

	"github.com/miekg/dns"
)

// fastAnswerer answers questions that are not the cluster zones', from memory
// and in the read loop: a cache of what others have said. It is asked only
// where the chain would have gone past the cluster zones, and only in blocks
// whose chain has nothing that could change its answer ([fastBlock]).
//
// It must neither wait nor allocate nor lock for long, and it must say exactly
// what its handler would say: in doubt it says false, and the chain answers.
type fastAnswerer interface {
	// answerFast appends the whole reply but its OPT record to dst, which is
	// empty and has room for q.limit octets. The question is at dst's start as
	// soon as q.begin has been called.
	answerFast(q *fastQuery, dst []byte) (reply fastReply, ok bool)
}

// fastQuery is a question on the fast path. It is valid during one call.
type fastQuery struct {
	req   []byte // the request as it came
	in    inspected
	name  queryName // the name that is asked for, in lower case
	route *route
	proto proto
	limit int // the largest reply in octets, room for OPT taken off
}

// fastReply is what a fast answerer made.
type fastReply struct {
	wire  []byte
	rcode int
	who   answerer // for the metrics
}

// begin appends the header and the question as they came (G3) to an empty dst;
// flags are those of the reply beside QR, opcode, RD and CD, the rcode
// included. finish writes the counts.
func (q *fastQuery) begin(dst []byte, flags uint16) []byte {
	dst = append(dst, q.req[:q.in.question]...)
	flags |= binary.BigEndian.Uint16(q.req[2:])&(opcodeMask|flagRD|flagCD) | flagQR
	if q.route.recursion {
		flags |= flagRA
	}
	binary.BigEndian.PutUint16(dst[2:], flags)
	clear(dst[6:headerLen])
	return dst
}

// setCounts writes the section counts of a reply that began with begin.
func setCounts(wire []byte, answers, authorities, additionals int) {
	binary.BigEndian.PutUint16(wire[6:], uint16(answers))
	binary.BigEndian.PutUint16(wire[8:], uint16(authorities))
	binary.BigEndian.PutUint16(wire[10:], uint16(additionals))
}

// fastBlock is what the fast path may do for a block. It is worked out once for
// each configuration.
type fastBlock struct {
	cluster *Cluster // nil: the block has no cluster zones
	// passesOn are the zones, in wire form, whose missing names are the next
	// handler's.
	passesOn [][]byte
	// shuffle and shuffleSRV do what loadBalance does.
	shuffle, shuffleSRV bool
	// others answers what the cluster zones don't; nil: nobody.
	others fastAnswerer
}

// newFastBlock returns nil for a block whose chain may say something that the
// fast path doesn't know of.
func newFastBlock(b *Block, others fastAnswerer) *fastBlock {
	if !b.plain() || b.Cluster == nil && others == nil {
		return nil
	}
	f := &fastBlock{cluster: b.Cluster, others: others}
	if lb := b.LoadBalance; lb != nil {
		f.shuffle, f.shuffleSRV = true, lb.SRV
	}
	if b.Cluster == nil {
		return f
	}
	for _, z := range b.Cluster.conf.zones {
		if z.labels == 0 || strings.Contains(z.name, `\`) || z.parent.labels == 0 {
			return nil // names are put together differently there
		}
	}
	for _, name := range b.Cluster.conf.Fallthrough {
		var n queryName
		if !n.parse(dns.Fqdn(name)) {
			return nil
		}
		f.passesOn = append(f.passesOn, append([]byte(nil), n.wire[:n.size]...))
	}
	return f
}

// plain reports whether everything that is on in the block is known here: what
// says where and how much, what the fast path does itself, and what comes
// after the cluster zones. So a feature that is added to blocks takes the slow
// path, until someone has thought about it and adds it to this list.
func (b *Block) plain() bool {
	rest := *b
	rest.Zones, rest.Listen, rest.MaxUDPSize, rest.Metrics = nil, nil, 0, false
	rest.Errors = false                                              // successes are not logged
	rest.MinimalANY, rest.Transfers, rest.Whoami = false, nil, false // see simpleRequest; after everything else
	rest.Consolidate, rest.Loop = nil, false                         // nor is what asks for HINFO answered here
	rest.LoadBalance, rest.Cluster, rest.Cache, rest.Forwards = nil, nil, nil, nil
	return reflect.ValueOf(rest).IsZero()
}
