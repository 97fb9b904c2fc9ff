// Package rivals finds other programs that make Services' addresses work on the
// same machine: two of them answer the same packets, and which one wins is
// chance (L-08, X15).
//
//	a process     answers at 127.0.0.1:10249/proxyMode, as kube-proxy does
//	its rules     nftables tables "kube-proxy", iptables chains KUBE-SERVICES,
//	              the device kube-ipvs0, kube-router's kube-dummy-if
//
// It only looks. Rules may be left over from a program that has ended; whoever
// finds them here has to say so, and how to get rid of them.
package rivals
