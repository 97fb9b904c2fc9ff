package dnsserver

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// fastTCP is a fast path with room for the largest reply over TCP. Connections
// are many and mostly idle, so they take one for the time of an answer.
type fastTCP struct {
	fastPath
	out [2 + dns.MaxMsgSize]byte
}

var fastTCPs = sync.Pool{New: func() any { return &fastTCP{fastPath: *newFastPath(nil)} }}

// answerFast answers a query in the read loop if the fast path has the reply.
func (c *tcpConn) answerFast(sv *serving, frame []byte, in *inspected) bool {
	if sv.fast == nil {
		return false
	}
	start := time.Now()
	f := fastTCPs.Get().(*fastTCP)
	defer fastTCPs.Put(f)
	f.srv = c.t.l.srv
	reply, ok := f.answer(sv, protoTCP, frame, in, f.out[2:2])
	if !ok {
		return false
	}
	binary.BigEndian.PutUint16(f.out[:], uint16(len(reply.wire)))
	done := f.answered(familyIndex(c.peer.Addr()), reply)
	if c.write(f.out[:2+len(reply.wire)]) != nil {
		f.srv.metrics.dropped(dropSend)
	}
	done.count(c.shard, time.Since(start))
	return true
}
