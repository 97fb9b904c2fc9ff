package dnsserver

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxCacheShards is how many parts a cache has at most, each with its own
	// lock, so that cores rarely meet; minShardEntries keeps small caches whole.
	maxCacheShards  = 256
	minShardEntries = 32
	// cachedOctets bounds memory: the octets kept for each place of a cache, on
	// average. Answers of usual size take less than a quarter.
	cachedOctets = 2048
)

// cacheStore holds the answers of a block. It outlives reloads that don't
// concern it.
type cacheStore struct {
	seed            maphash.Seed // random: nobody can aim at one shard
	success, denial *cacheSet

	mu      sync.Mutex
	flights map[uint64]*flight
}

func newCacheStore(c *CacheConfig) *cacheStore {
	return &cacheStore{
		seed: maphash.MakeSeed(), success: newCacheSet(c.Success.Capacity), denial: newCacheSet(c.Denial.Capacity),
		flights: map[uint64]*flight{},
	}
}

func (s *cacheStore) hash(k *cacheKey) uint64 { return maphash.Bytes(s.seed, k.bytes()) }

// set is where answers of a kind are.
func (s *cacheStore) set(kind cacheKind) *cacheSet {
	if kind == cacheSuccess {
		return s.success
	}
	return s.denial
}

// put keeps an answer in place of all that was known of its question: a name
// that exists now no longer doesn't, and the other way round (F4).
func (s *cacheStore) put(hash uint64, e *cacheEntry) {
	if e.kind == cacheSuccess {
		s.denial.remove(hash)
	} else {
		s.success.remove(hash)
	}
	s.set(e.kind).add(hash, e)
}

// find returns what is known of a question, the newer of two answers; nil if
// nothing is. It may have expired.
func (s *cacheStore) find(hash uint64, k *cacheKey) *cacheEntry {
	if e := s.success.get(hash, k); e != nil {
		return e
	}
	return s.denial.get(hash, k)
}

// cacheSet is one kind of answers: least recently used ones go first.
type cacheSet struct {
	shards    []cacheShard
	evictions atomic.Uint64
}

// cacheShard is a part of a set. Its octets are bounded like its entries.
type cacheShard struct {
	mu        sync.Mutex
	lru       *simplelru.LRU[uint64, *cacheEntry]
	octets    int
	maxOctets int
}

func newCacheSet(capacity int) *cacheSet {
	n := 1
	for n < maxCacheShards && capacity/(2*n) >= minShardEntries {
		n *= 2
	}
	set := &cacheSet{shards: make([]cacheShard, n)}
	for i := range set.shards {
		sh := &set.shards[i]
		size := max(1, capacity/n)
		sh.maxOctets = size * cachedOctets
		sh.lru, _ = simplelru.NewLRU(size, func(_ uint64, e *cacheEntry) { sh.octets -= e.size() }) // fails on sizes below 1 only
	}
	return set
}

func (c *cacheSet) shard(hash uint64) *cacheShard { return &c.shards[hash%uint64(len(c.shards))] }

// get returns the entry of the key. Two keys with one hash take turns.
func (c *cacheSet) get(hash uint64, k *cacheKey) *cacheEntry {
	sh := c.shard(hash)
	sh.mu.Lock()
	e, ok := sh.lru.Get(hash)
	sh.mu.Unlock()
	if !ok || e.key != string(k.bytes()) {
		return nil
	}
	return e
}

// add keeps an entry and evicts others as far as it needs room. One that is
// larger than a whole shard isn't kept.
func (c *cacheSet) add(hash uint64, e *cacheEntry) {
	sh := c.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.lru.Remove(hash)
	if e.size() > sh.maxOctets {
		return
	}
	sh.octets += e.size()
	if sh.lru.Add(hash, e) {
		c.evictions.Add(1)
	}
	for sh.octets > sh.maxOctets {
		sh.lru.RemoveOldest()
		c.evictions.Add(1)
	}
}

func (c *cacheSet) remove(hash uint64) {
	sh := c.shard(hash)
	sh.mu.Lock()
	sh.lru.Remove(hash)
	sh.mu.Unlock()
}

// len is the number of entries.
func (c *cacheSet) len() int {
	n := 0
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		n += sh.lru.Len()
		sh.mu.Unlock()
	}
	return n
}

// flight is a question on its way upstream. Whoever asks the same meanwhile
// waits for its answer.
type flight struct {
	key  string
	done chan struct{}
	// The result, set before done is closed: an entry that may be shared, or
	// nil and everyone asks for themselves.
	entry *cacheEntry
	err   error
}

// join returns the flight of a question, and whether the caller has to fly it.
// A nil flight is another question's with the same hash: ask alone.
func (s *cacheStore) join(hash uint64, k *cacheKey) (f *flight, leader bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.flights[hash]; f != nil {
		if f.key != string(k.bytes()) {
			return nil, true
		}
		return f, false
	}
	f = &flight{key: string(k.bytes()), done: make(chan struct{})}
	s.flights[hash] = f
	return f, true
}

// land ends a flight.
func (s *cacheStore) land(hash uint64, f *flight) {
	if f == nil {
		return
	}
	s.mu.Lock()
	delete(s.flights, hash)
	s.mu.Unlock()
	close(f.done)
}

// expired reports whether the entry's time is over.
func (e *cacheEntry) expired(now time.Time) bool { return !now.Before(e.expires) }
