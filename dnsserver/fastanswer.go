package dnsserver

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"

	"github.com/miekg/dns"
)

// fastPath is what one reader of requests needs to answer them itself. It
// belongs to one goroutine.
type fastPath struct {
	srv  *Server
	q    fastQuery
	rand *rand.Rand
	// inOrder is 0, 1, 2, …
	inOrder [maxFastRecords]uint16
	// order is scratch: which record comes next, when they are shuffled.
	order [maxFastRecords]uint16
	// targets is scratch: where the SRV records' targets begin.
	targets [maxFastRecords]uint16
}

// maxFastRecords is the largest RRset that the fast path knows how to shuffle.
// More than these don't fit in a message: 16 octets is the least that an
// address record takes.
const maxFastRecords = dns.MaxMsgSize / 16

func newFastPath(s *Server) *fastPath {
	f := &fastPath{srv: s, rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	for i := range f.inOrder {
		f.inOrder[i] = uint16(i)
	}
	return f
}

// answer makes the whole reply to a request that passed the inspection, in
// dst's memory, or says that the chain has to. dst is empty and has room for
// the largest reply of the transport. The reply's route is in f.q.route.
func (f *fastPath) answer(sv *serving, p proto, req []byte, in *inspected, dst []byte) (reply fastReply, ok bool) {
	defer f.recoverPanic(sv, &ok)
	if !simpleRequest(in) || !f.q.name.read(req[headerLen:]) {
		return fastReply{}, false
	}
	r := sv.fast.match(&f.q.name)
	if r == nil || r.fast == nil {
		return fastReply{}, false
	}
	q := &f.q
	q.req, q.in, q.route, q.proto, q.limit = req, *in, r, p, maxTCPSize
	if p == protoUDP {
		q.limit = in.edns.udpLimit(r.udpSize)
	}
	if in.edns.present {
		q.limit -= optLen
	}
	reply, ok = f.dispatch(r.fast, dst)
	if ok && in.edns.present {
		opt := replyOPT{size: r.udpSize, do: in.edns.do}
		binary.BigEndian.PutUint16(reply.wire[10:], binary.BigEndian.Uint16(reply.wire[10:])+1)
		reply.wire = opt.append(reply.wire, reply.rcode)
	}
	return reply, ok && &reply.wire[0] == &dst[:1][0] // appending may have moved it
}

// simpleRequest reports whether a request is a question and nothing else but a
// plain OPT record, of a type that no handler has ideas of its own about: ANY
// and transfers have (W25, S15), HINFO is the probe for forwarding loops.
func simpleRequest(in *inspected) bool {
	size := 0
	if in.edns.present {
		size = optLen
	}
	if in.end-in.question != size {
		return false
	}
	switch in.qtype {
	case dns.TypeANY, dns.TypeAXFR, dns.TypeIXFR, dns.TypeHINFO:
		return false
	}
	return true
}

// dispatch asks the cluster zones, then the block's other answerer.
func (f *fastPath) dispatch(b *fastBlock, dst []byte) (fastReply, bool) {
	if b.cluster != nil {
		v := b.cluster.view.Load()
		r := v.lookup(&f.q.name, f.q.in.qtype)
		if !b.passes(&f.q.name, r) {
			return f.clusterReply(b, v, r, dst)
		}
	}
	if b.others != nil {
		return b.others.answerFast(&f.q, dst)
	}
	return fastReply{}, false
}

// passes reports whether a name is the next handler's, as Cluster.answer
// decides it.
func (b *fastBlock) passes(q *queryName, r result) bool {
	switch r.outcome {
	case outside:
		return true
	case missing:
		return !r.zone.private && b.passesName(q) && !r.zone.doubled(q)
	default:
		return false
	}
}

// passesName is Cluster.fallsThrough on wire names.
func (b *fastBlock) passesName(q *queryName) bool {
	for _, zone := range b.passesOn {
		if bytes.HasSuffix(q.wire[:q.size], zone) && q.startsLabel(q.size-len(zone)) {
			return true
		}
	}
	return false
}

// startsLabel reports whether a label, or the root, begins at an offset.
func (n *queryName) startsLabel(at int) bool {
	if at == n.size-1 {
		return true
	}
	return bytes.IndexByte(n.starts[:n.labels], uint8(at)) >= 0
}

// recoverPanic leaves the query to the chain, where a panic costs its client a
// SERVFAIL and nobody else anything (L11).
func (f *fastPath) recoverPanic(sv *serving, ok *bool) {
	cause := recover()
	if cause == nil {
		return
	}
	*ok = false
	f.srv.metrics.panics.Inc()
	sv.cfg.Log.Error("recovered from a panic on the fast path",
		slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
}
