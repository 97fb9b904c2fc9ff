// Package conformance tells by real packets whether a backend does what a state
// of the dataplane means. It looks at no rule, set or virtual server.
//
//	p1 … p9 pods     q1 q2
//	 |  | |  |        |  |
//	+---------+    +--------+     a state is applied on n1, and packets are
//	|   n1    |    |   n2   |     sent from pods (also those that serve), from
//	+---------+    +--------+     n1 itself and from outside
//	      \          /
//	       \        /             elsewhere has the external and load-balancer
//	     +------------+           addresses: what n1 lets pass, arrives there
//	     |   router   |
//	     +------------+           whatever comes from outside or n2 goes by way
//	      /          \            of n1, so that answers find their way back
//	 outside      elsewhere       through its connection tracking
//
// [Run] is the suite: one table of features, written as worlds
// ([viptest.ParseWorld]) with what has to become of each packet; session affinity; random
// sequences of clusters, incremental against fresh; restarts; cleanup. Each
// world is there in IPv4 and IPv6, over TCP, UDP and SCTP. What has to happen
// stands in the table, and is also what [viptest.Expect] says: the two check
// each other.
//
// A backend that can't do something by its nature says so in [Limits]: that is
// the one place where backends differ, and nothing is skipped silently.
//
// Packets that are to be dropped are waited for a third of a second; all packets of
// a world are under way at once. TCP has to be answered before it sends again.
// What is late is sent a second time when the others are done, alone: then
// nothing is excused.
package conformance
