// Package nftables programs virtual servers into the kernel's nf_tables, over
// netlink and without the nft command.
//
// # What happens to a packet
//
// Only the first packet of a connection comes by here: later ones follow the
// kernel's connection tracking, which is what keeps a connection alive when its
// endpoint leaves the Service.
//
//	from pods and outside                        from this node
//	         |                                         |
//	  [nat-prerouting] hook prerouting,         [nat-output] hook output,
//	         |         priority dstnat                 |     priority dstnat
//	         +--------------------+--------------------+
//	                              v
//	                chain ip4-services / ip6-services
//	   1  map ip4-services      address . protocol . port  ->  class chain
//	   2  set ip4-cluster-ips, the service ranges          ->  refused
//	   3  set ip4-node-port-addresses and
//	      map ip4-node-ports    protocol . port            ->  class chain
//	   4  nothing of ours: the packet goes its way
//	                              |
//	                              v
//	                       a class chain
//	   admit-...       set ip4-source-ranges: inside, or dropped      (P-18)
//	   by-source/...   from a pod? this node? elsewhere?        (P-13, P-14)
//	   verdict-reject  TCP reset, else ICMP port unreachable    (P-12, F-15)
//	   verdict-drop    no answer                                      (P-12)
//	   cluster-10      dnat to map ip4-endpoints
//	                     address . protocol . port . random index below 10
//	   cluster-10-snat the same, marked to be masqueraded
//	   local-3         dnat to map ip4-local-endpoints, index below 3
//	   sticky/...      session affinity, see affinity.go              (P-16)
//	                              |
//	                         routing, filters of others
//	          [strays-forward], [strays-input]: strays.go has them    (B56)
//	                              |
//	                              v
//	             [nat-postrouting] hook postrouting, priority srcnat
//	   marked                              -> masquerade
//	   translated and source . destination
//	   in set ip4-hairpin                  -> masquerade               (P-15)
//
// There is no rule per Service. Virtual servers that need the same treatment
// share a class chain, so the number of rules follows the number of different
// treatments (a few dozen), a packet costs two hash look-ups however many
// Services there are, and an endpoint that comes or goes costs a few map
// elements. The exception is session affinity: a server with it has a chain of
// its own.
//
// # Invariants
//
//   - Policy is decided in the plan. A class is nothing but the plan's routes.
//   - All is in the one table "inet signpost"; nothing else is ever written.
//   - An Apply is one transaction: at no moment does a part of it hold. It is
//     split only past what one netlink message can carry, or where the kernel
//     refuses it, to find the frontends to blame.
//   - A chain never changes: its name says what it does. Only the chains that
//     tell pods from others are rewritten, when the node's settings change.
//   - Rules carry a fingerprint in their comment, sets have a shape; by both a
//     later run recognises what it finds, and adopts it.
//
// # What the kernel needs
//
// nf_tables with NAT, numgen, fib and reject in the inet family, Linux 5.13 or
// later, and CAP_NET_ADMIN. [Backend.Probe] says what is missing. SCTP needs
// connection tracking for SCTP; where the kernel has none, only those frontends
// fail.
package nftables
