// Package ipvs balances connections with the kernel's IP Virtual Server, and
// masquerades and filters them with one nf_tables table.
//
// # What happens to a packet
//
//	from pods and outside                          from this node
//	         |                                           |
//	  [prerouting] packets of connections         [output] packets of connections
//	  that nobody has answered yet                that nobody has answered yet
//	         +--------------------+----------------------+
//	                              v
//	                chain ip4-services / ip6-services
//	   set ip4-restricted    not in ip4-source-ranges: dropped           (P-18)
//	   from a pod? from this node? from elsewhere?
//	   map ip4-from-pod, ip4-from-node, ip4-from-outside:
//	       address . protocol . port -> what to do, one of
//	         verdict-reject, verdict-drop     no endpoints         (P-12, F-15)
//	         to-ipvs, to-ipvs-masquerade      the IPVS server of the frontend
//	         ip4-by-mark-SOURCE               an IPVS server for that source
//	   set ip4-cluster-ips, the service ranges: refused            (F-16, I-06)
//	                              |
//	  [capture] every packet to a frontend in ip4-captured is marked,
//	         |  and routed here: ip rule 84, route table 84
//	         v                                           |
//	  routing: cluster addresses are on the device signpost-ipvs
//	         v                                           v
//	  hook input: IPVS translates              hook output: IPVS translates
//	         +--------------------+----------------------+
//	                              v
//	  [nat-postrouting] marked, or an endpoint that reaches itself: masqueraded
//	  [done] our bits of the mark are cleared
//
// Each virtual server is an IPVS server at its address ("ipvsadm -Ln"), a node
// port is one at each address of the node. IPVS has one list of endpoints for
// all clients. Where the plan has another set for pods or the node than for the
// outside (an external policy Local), these sources have an IPVS server of their
// own, by mark ("FWM"); so the policies mean what they mean in every mode (I-10).
// One difference is left: session affinity of those sources, where the endpoints'
// port is not the frontend's, is by hashing (see hashing in compile.go).
//
// # Addresses
//
// Cluster addresses are bound, each by itself, to a dummy device that stays
// down, or where the kernel has none by a local route; other ports of theirs
// are refused, so that the node's own daemons don't answer there (B17). External
// and load-balancer addresses are not bound: packets to their frontends alone
// are marked and routed here. So other ports of such an address, and the address
// itself where somebody else has it, stay what they are (F-07, B20), nobody is
// answered by ARP, and the node can have the address itself (B18).
//
// # Invariants
//
//   - Policy is decided in the plan; compile.go only says it in IPVS's words.
//   - SNAT and filters first, then servers, then addresses and the gates, which
//     are the map elements that let packets in; removal goes the other way (I-09).
//     What no service has is refused when all that is done: until then another
//     mode's services work on (X22).
//   - A change costs what it changes. Nothing is read back to write (I-16).
//   - What is ours is written down in the kernel: the set ip4-owned and the map
//     ip4-marks name our IPVS servers, the device and the routes bear our name
//     and number. IPVS servers of others are left alone, but for one at the very
//     frontend of a virtual server: the kernel has room for one (I-08).
//   - Nothing is concluded from what a dump of IPVS lacks (I-15).
//   - A TCP endpoint that leaves keeps its connections, with weight 0, until
//     they end or [Config].Drain is over (I-07).
//
// # Drift
//
// IPVS tells nobody of its changes, so it is looked at every 500 ms: all of a
// table of up to 128 KiB of text (180 servers with ten endpoints), the first part
// of a larger one, and a summary of all IPv4 servers, which tells what is missing,
// set otherwise, or has endpoints too many or too few, whatever the size. What it
// doesn't tell in a large table, an exchanged endpoint or another weight, a round
// over all endpoints does, 512 servers or more each 100 ms: see rolling.go. The
// settings of IPv6 servers in a large table are left to the controller's
// periodic look. BenchmarkKernelDrift measures it.
//
// # What it does not do
//
// Node ports on loopback addresses (I-18). Let health-check node ports in where the
// host drops by default. Undo other firewalls' drops, but for
// the filter of iptables (I-13, hostfilter.go): packets to IPVS pass the input
// hook, so another table that drops there has to accept what has the mark
// 0x2000. Without nf_tables it does not run: [Backend.Probe] says so.
//
// The packet mark's bits 11 to 14 are used, and the upper half on the
// packets that begin a connection which goes by mark; of the connection's mark
// bit 13, where the host has a filter of iptables.
package ipvs
