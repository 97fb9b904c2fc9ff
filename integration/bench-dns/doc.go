// Bench-dns compares signpost's DNS server with CoreDNS, and both with a loop
// that only reads and replies: what no DNS server on this machine can beat.
//
//	                 ┌─ folder of manifests ──> signpost ─┐
//	one cluster ─────┤                                    ├── dnsperf, in turn
//	                 └─ stand-in for an API ──> CoreDNS ──┘   (and the bare loop)
//
// The cluster is the same for both, the load is the same, everything runs on
// this machine's loopback, and the servers take turns within each mix of
// questions, so that whatever else the machine does hits them alike. Printed
// are queries a second, the server's CPU time for each query, latencies at half
// of what CoreDNS can do, and memory; for comparison look at the ratios.
//
// The bare loop's replies are as large as signpost's are on average, for the
// kernel's part of a reply grows with it.
//
// A last part shows how late each server notices a change: an endpoint is
// replaced, a Service is made anew with another address, a name appears, all
// while the names are asked for.
//
// It needs dnsperf, and the Go client to build CoreDNS of a pinned version
// beside, not in, this module:
//
//	make bench-dns                        # a few minutes
//	make bench-dns BENCHDNS='-short'      # one minute
//	make bench-dns BENCHDNS='-late'       # the part about changes alone
//	make bench-dns BENCHDNS='-mixes clusterip-a,search -rounds 5 -seconds 5'
package main
