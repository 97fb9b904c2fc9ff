// Package iptables programs virtual servers with iptables and ip6tables, both
// the nf_tables and the legacy binaries, for machines whose other rules are
// iptables' too.
//
// # What happens to a packet
//
// Only the first packet of a connection meets the nat table: later ones follow
// the kernel's connection tracking.
//
//	from pods and outside                     from this node
//	         |                                      |
//	   nat PREROUTING                           nat OUTPUT
//	         +------------------+-------------------+
//	                            v
//	     SIGNPOST-SERVICES      by the address's lowest 5 bits
//	     SIGNPOST-S-1a          by the next 5 bits
//	     SIGNPOST-S-1a-03       a few virtual servers, for each of them:
//	        to be masqueraded?     MARK, or SIGNPOST-MARK-…: some sources only (P-14)
//	        endpoints              DNAT, one rule each, by statistic's random choice
//	        anything special       a chain of the server's own:
//	          SIGNPOST-A-…           admits the source ranges                 (P-18)
//	          SIGNPOST-V-…           tells pods, this node and others apart   (P-13)
//	          SIGNPOST-C-…, -L-…     the cluster set, the local set
//	                                 with affinity: recent, one list per endpoint (P-16)
//	        no endpoint            ACCEPT: leaves the nat table as it is
//	     SIGNPOST-NODE-PORTS    last, for the node's addresses: by blocks of 32 ports
//	     SIGNPOST-N-tcp-30016   node ports, as above
//	                            |
//	                         routing
//	                            |
//	   filter INPUT, FORWARD, OUTPUT: new connections
//	     SIGNPOST-SERVICES      what was translated returns; then the same tree, with
//	        no endpoint            SIGNPOST-REFUSE (a TCP reset, else ICMP) or DROP (P-12)
//	        not admitted           DROP                                       (P-18)
//	        a port of a cluster address, or a service address, that is nobody's:
//	                               SIGNPOST-UNASSIGNED refuses                (F-16)
//	   filter FORWARD -> SIGNPOST-STRAYS    pods' segments out of the window: DROP
//	                     SIGNPOST-FORWARD   marked or translated: ACCEPT
//	   filter INPUT -> SIGNPOST-STRAYS, and
//	                   SIGNPOST-LOCALHOST   keeps others out of localhost (O-05)
//	                   SIGNPOST-HEALTH-CHECKS   lets load balancers in    (F-09)
//	                            |
//	   nat POSTROUTING -> SIGNPOST-POSTROUTING
//	     SIGNPOST-HAIRPIN       an endpoint that reached itself: MASQUERADE   (P-15)
//	     marked                 MASQUERADE
//
// rules.go has what a virtual server comes to, skeleton.go the rest.
//
// # A change costs a leaf
//
// The tree's shape follows from the addresses alone, so a change rewrites the
// one or two chains of its leaf, whatever the number of Services, and a packet
// walks some 32 + 32 rules and its leaf. The lowest bits are those in which the
// addresses of a range differ, whether they were given out at random or in turn.
// Plain servers have no chain of their own: it is chains, more than rules, that
// make iptables slow.
//
// # Invariants
//
//   - Policy is decided in the plan; here are only its routes.
//   - All our chains begin with SIGNPOST-; no other is flushed or deleted. Of
//     foreign chains only the jumps into ours are touched.
//   - A chain's text is a function of the state: written as iptables-save shows
//     it, so that a later run recognises it by comparing, and adopts it.
//   - A chain is written whole or not at all. Each table is one transaction of
//     iptables-restore: filter before nat, so that there is never a packet that
//     neither is translated nor meets its refusal (T-03). What is not used any
//     more is deleted after that.
//   - Nothing of an object's text gets into a payload but its key, in a comment,
//     after a look at every character (X10).
//
// # What it needs
//
// iptables 1.6.2 or later with the matches addrtype, comment, conntrack, mark
// and statistic; recent for session affinity, and conntrack for SCTP: without
// these two, only the virtual servers that need them fail. xt_recent remembers
// as many clients per endpoint as its module parameter ip_list_tot says (100 by
// default): more than that lose their affinity.
package iptables
