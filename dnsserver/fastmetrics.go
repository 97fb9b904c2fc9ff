package dnsserver

import "time"

// fastDone is an answered query that has yet to be counted: how long it took is
// known when the batch that it came in has been sent.
type fastDone struct {
	counters *counters // nil: its block wants no metrics
	proto    proto
	family   int // as familyIndex
	qtype    uint16
	do       bool
	request  int // octets
	reply    fastReply
}

// fastAnswered notes what fastPath.answer has just done.
func (f *fastPath) answered(family int, reply fastReply) fastDone {
	q := &f.q
	return fastDone{
		counters: q.route.counters, proto: q.proto, family: family, qtype: q.in.qtype, do: q.in.edns.do,
		request: len(q.req), reply: reply,
	}
}

// count does for a query of the fast path what done does for the others.
func (d *fastDone) count(shard int, took time.Duration) {
	if d.counters == nil {
		return
	}
	s := &d.counters.shards[shard%numShards]
	i := typeIndex(d.qtype)
	s.requests[d.proto][d.family][i].Add(1)
	if d.do {
		s.do.Add(1)
	}
	s.requestSize[d.proto].observe(bucketOf(sizeBuckets[:], float64(d.request)), uint64(d.request))
	s.duration[i].observe(bucketOf(timeBuckets[:], took.Seconds()), uint64(max(took, 0)))
	s.responses[d.reply.who][min(d.reply.rcode, numRcodes-1)].Add(1)
	size := len(d.reply.wire)
	s.responseSize[d.proto].observe(bucketOf(sizeBuckets[:], float64(size)), uint64(size))
}
