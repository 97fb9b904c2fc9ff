// Package dnsserver answers DNS queries: names of services and their
// addresses from the cluster and reverse zones, everything else by forwarding.
//
//	clients ──UDP, TCP──> Server ──> handler chain ──┬──> Cluster ──> view.lookup
//	                      (wire format, limits,      │       │           │ records by copying
//	                       EDNS, truncation)         │       │ alias     v
//	                                                 │       └──────> Resolve: the whole chain again
//	                                                 └──> cache ──> forward ──> upstreams
//
//	discovery.Store ──snapshot──> Cluster.Run ──view.advance──> view (atomic pointer)
//	                                               │
//	                                               └── compile(*discovery.Service) ──> answers
//
// It does not know where services come from, nor whether their addresses
// work: it reads a [discovery.Store] and nothing else. It is no recursive
// resolver.
//
// # The cluster zones
//
// [Cluster] follows the store. For each service that changed, compile, a pure
// function, works out everything that DNS knows about it: addresses as the
// octets of their records, names relative to the service, so that the same
// answers serve every zone and every TTL. A view is all answers of one
// revision, with the reverse names beside them in a trie whose inner nodes are
// the names above them. view.lookup, pure as well, finds a question's result
// in the view's own data; records, a [github.com/miekg/dns.Msg] now, are
// copied out of it afterwards.
//
// # The fast path
//
// Where a block's chain has nothing that could change what its cluster zones
// say, the loop that reads a socket answers their names itself: it copies the
// question out of the request and the records out of the view, without a
// goroutine, a dns.Msg, a lock or an allocation. Whatever it is not sure about
// goes through the chain, which stays the specification: a fuzz test compares
// the two. So are answers from the cache, which keeps them packed.
//
// # Other people's answers
//
// forward asks upstreams, each exchange over UDP from a port of its own, and
// lets through only what belongs to the question. Upstreams that fail are
// checked until they answer. The cache stands between it and everything else:
// what this server knows by itself comes before it and is never kept, so a
// change of the cluster is in the very next answer. Questions asked at the
// same time go upstream once; a reload that changes nothing about who is asked
// keeps what is cached. What runs beside the queries (checks, watched files,
// refreshes) belongs to a lifetime, which ends with its configuration.
//
// # Invariants
//
//   - A query takes one view and sees one revision, aliases within our zones
//     included. It waits for no lock; a lookup allocates nothing.
//   - Whether a name exists does not depend on the type that is asked for, and
//     a name exists if one below it does (RFC 8020). So NXDOMAIN is safe to
//     cache for everything below.
//   - A record stands once in an RRset (RFC 2181 §5), and nothing stands beside
//     a CNAME.
//   - The SOA serial rises by one for each revision that changes an answer, and
//     for no other.
//   - Before the source has delivered everything, no name is said not to
//     exist: SERVFAIL, without authority.
//   - A cache is bounded in entries and in octets; no SERVFAIL stays in it
//     longer than five minutes, and nothing that was truncated gets in.
//   - The bytes of the question come back as they were, as owner names too.
package dnsserver
