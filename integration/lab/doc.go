// Package lab is a small cluster on one machine: nodes, pods and a client
// outside, each in a network namespace of its own, with nothing of it reachable
// from the machine's own network. Tests stand on it, and "make lab" leaves one
// running to be looked at.
//
//	 pod-a   pod-b           pod-c   pod-d
//	  eth0    eth0            eth0    eth0       everything is routed: each address
//	   |       |               |       |         is a /32 or /128 on its own link,
//	  pod0    pod1            pod0    pod1       so any host can have any address,
//	+------------------+   +------------------+  and a pod that reaches itself
//	|      node-a      |   |      node-b      |  through a virtual address
//	+------------------+   +------------------+  (hairpin) is routed like any other
//	       eth0                   eth0
//	        |                      |
//	      link0                  link1
//	    +------------------------------+        the router knows each pod's node,
//	    |            router            |link2   and by which node the virtual
//	    +------------------------------+   |    addresses are to be reached
//	                                     eth0
//	                                   outside
//
// What it does: it builds a [Topology], starts an echo server (package echo) in
// each pod, starts signpost on nodes, runs commands, functions and connections
// in any host, and removes everything, also what a crashed process left.
//
// What it does not: it has no opinion on Services. It needs root and Linux, and
// says so otherwise.
//
// Namespaces are named ("ip netns list"): NAME-HOST, where NAME is
// signpost-PID.N for a test's lab, which dies with the process at the latest
// when the next lab starts, and chosen for one that is to stay.
package lab
