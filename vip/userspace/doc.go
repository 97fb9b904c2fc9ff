// Package userspace is the dataplane without a kernel interface: this process
// listens on every frontend and passes the bytes on to an endpoint. It works
// everywhere and for everybody: on addresses of 127.0.0.0/8 without a single
// privilege, on all others with CAP_NET_ADMIN.
//
//	client ──> VIP:port ──> listener ──> verdict ──> endpoint ──> dial, splice
//	                 │        (one        (source      (affinity,    (next one
//	   local route,  │         socket)     class,       round         if it
//	   ours to remove┘                     ranges)      robin)        fails)
//
// What it does:
//
//   - TCP with half-close in both directions; a reset on one side resets the
//     other. UDP with one upstream socket per client, so that replies find
//     their way; a session ends when idle, and at once when its endpoint goes.
//   - An endpoint that can't be reached is passed over for the next one.
//   - Removing an endpoint or a frontend leaves established TCP connections
//     alone (F-18).
//   - A frontend without endpoints that is to refuse has no listener: the
//     kernel itself refuses, as it does on unassigned ports (F-15, F-16).
//   - Drop verdicts and source ranges (P-12, P-18) are enforced by a socket
//     filter on the listener, so that whoever is not let in gets no answer at
//     all. Should the kernel refuse the filter (too many ranges), they are
//     accepted and reset instead.
//   - Addresses that are not local are made so by routes of type local with
//     [RouteProtocol]: one for each service range that the node knows, which also
//     makes addresses that no service has refuse (F-16), and one for each other
//     address. They are recognised by that number after a restart, adopted, and
//     go with their last user, which may be an established connection, or in
//     Cleanup.
//   - Where a service has an address and port of its own, a node port makes way.
//
// What it can't do, by its nature:
//
//   - The endpoint sees this node's address, not the client's: SNAT is always on.
//   - SCTP: each such frontend is reported as failed.
//   - A frontend that refuses some sources and serves or drops others has to
//     accept the refused ones first, and resets them; UDP gets no answer then.
//   - [vip.Detector].InterfacePrefix: a socket doesn't tell by which interface a
//     client came, so only CIDRs make a client a pod.
//   - A made-local address answers on all ports on which a process of this
//     node listens on the unspecified address; a frontend with such a port can't
//     be opened, and is reported as failed.
//
// Invariants: only Apply and Cleanup change the set of servers; the data path
// reads one immutable [vip.VirtualServer] through an atomic pointer, so a
// change of endpoints never touches a listener. Every goroutine ends in Close.
package userspace
