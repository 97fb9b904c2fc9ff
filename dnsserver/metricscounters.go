package dnsserver

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// numShards is how many copies of each counter there are, so that cores don't
// fight for one cache line. Sockets beyond that share.
const numShards = 8

// numRcodes covers the assigned rcodes up to BADCOOKIE; later ones count as
// the last.
const numRcodes = dns.RcodeBadCookie + 1

// countedTypes are the query types with a label of their own, as in CoreDNS;
// all others are "other".
var countedTypes = [...]uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeCNAME, dns.TypeDNSKEY, dns.TypeDS, dns.TypeHTTPS, dns.TypeMX, dns.TypeNSEC,
	dns.TypeNSEC3, dns.TypeNS, dns.TypePTR, dns.TypeRRSIG, dns.TypeSOA, dns.TypeSRV, dns.TypeTXT,
}

const numTypes = len(countedTypes) + 1

// typeIndex is the place of a type in the counters.
func typeIndex(qtype uint16) int {
	for i, t := range countedTypes {
		if t == qtype {
			return i
		}
	}
	return numTypes - 1
}

func typeLabel(i int) string {
	if i < len(countedTypes) {
		return dns.TypeToString[countedTypes[i]]
	}
	return "other"
}

// The bounds of CoreDNS's histograms: seconds and octets.
var (
	timeBuckets = [...]float64{
		0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032,
		0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192,
	}
	sizeBuckets = [...]float64{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3}
)

// cells are the counters of one shard, or (as tally) their sums.
type cells[N, H any] struct {
	requests     [numProtos][2][numTypes]N
	do           N
	duration     [numTypes]H
	requestSize  [numProtos]H
	responseSize [numProtos]H
	responses    [numAnswerers][numRcodes]N
}

// counters counts the queries of one zone at one address.
type counters struct {
	shards [numShards]struct {
		cells[atomic.Uint64, histogram]
		_ [64]byte // keeps neighbours off the cache line
	}
}

// maxBuckets is enough for both kinds of histogram, the one for +Inf included.
const maxBuckets = len(timeBuckets) + 1

// histogram counts observations by bucket. The sum is kept in the smallest
// unit: nanoseconds or octets.
type histogram struct {
	buckets [maxBuckets]atomic.Uint64
	sum     atomic.Uint64
}

// observe counts a value that lies in a bucket.
func (h *histogram) observe(bucket int, value uint64) {
	h.buckets[bucket].Add(1)
	h.sum.Add(value)
}

// bucketOf returns the first bucket whose bound isn't below v.
func bucketOf(bounds []float64, v float64) int {
	for i, bound := range bounds {
		if v <= bound {
			return i
		}
	}
	return len(bounds)
}

// done counts an answered query.
func (c *counters) done(q *query) {
	s := &c.shards[q.shard%numShards]
	i := typeIndex(q.in.qtype)
	s.requests[q.proto][familyIndex(q.client.remote().Addr())][i].Add(1)
	if q.in.edns.do {
		s.do.Add(1)
	}
	s.requestSize[q.proto].observe(bucketOf(sizeBuckets[:], float64(len(q.raw))), uint64(len(q.raw)))
	took := time.Since(q.start)
	s.duration[i].observe(bucketOf(timeBuckets[:], took.Seconds()), uint64(max(took, 0)))
	if !q.written {
		return
	}
	s.responses[q.handler][min(q.rcode, numRcodes-1)].Add(1)
	s.responseSize[q.proto].observe(bucketOf(sizeBuckets[:], float64(q.size)), uint64(q.size))
}

// reject counts a request that its bytes alone condemned.
func (c *counters) reject(p proto, from netip.Addr, in *inspected, size int) {
	s := &c.shards[0]
	s.requests[p][familyIndex(from)][typeIndex(in.qtype)].Add(1)
	s.requestSize[p].observe(bucketOf(sizeBuckets[:], float64(size)), uint64(size))
	s.responses[answeredByNone][min(in.rcode, numRcodes-1)].Add(1)
}

// familyIndex is 0 for IPv4 and 1 for IPv6, the family label less one.
func familyIndex(a netip.Addr) int {
	if a.Unmap().Is4() {
		return 0
	}
	return 1
}

// tally is the sum of all shards.
type tally cells[uint64, histogramSum]

// histogramSum is a histogram at one moment.
type histogramSum struct {
	buckets [maxBuckets]uint64
	sum     uint64
}

// sum adds the shards up.
func (c *counters) sum() *tally {
	t := new(tally)
	for i := range c.shards {
		s := &c.shards[i]
		t.do += s.do.Load()
		for p := range numProtos {
			for f := range t.requests[p] {
				addAll(t.requests[p][f][:], s.requests[p][f][:])
			}
			t.requestSize[p].add(&s.requestSize[p])
			t.responseSize[p].add(&s.responseSize[p])
		}
		for j := range t.duration {
			t.duration[j].add(&s.duration[j])
		}
		for who := range t.responses {
			addAll(t.responses[who][:], s.responses[who][:])
		}
	}
	return t
}

func addAll(sums []uint64, counts []atomic.Uint64) {
	for i := range sums {
		sums[i] += counts[i].Load()
	}
}

func (t *histogramSum) add(h *histogram) {
	addAll(t.buckets[:], h.buckets[:])
	t.sum += h.sum.Load()
}

// emit makes the metric; one without observations isn't shown.
func (t *histogramSum) emit(ch chan<- prometheus.Metric, d *prometheus.Desc, bounds []float64, labels []string) {
	cumulative := make(map[float64]uint64, len(bounds))
	var n uint64
	for i, bound := range bounds {
		n += t.buckets[i]
		cumulative[bound] = n
	}
	n += t.buckets[len(bounds)]
	if n == 0 {
		return
	}
	sum := float64(t.sum)
	if d == descDuration {
		sum /= float64(time.Second)
	}
	ch <- prometheus.MustNewConstHistogram(d, n, sum, cumulative, labels...)
}
