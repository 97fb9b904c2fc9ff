// Package conntrack removes stale UDP entries from the kernel's connection
// tracking table (vip-requirements §1.2).
//
// A UDP "connection" is nothing but such an entry: as long as a client goes on
// sending from one port, the kernel goes on sending to the endpoint that the
// entry names, even when that endpoint is gone for hours. So after every change
// of the dataplane in which a UDP service or its endpoints changed, and now and
// then in between, the table is read and the entries that lead to somewhere
// that does not serve any more are deleted; the next packet then finds its way
// by the rules.
//
//	vip.Controller --status--> Reconciler --dump, delete--> Table (ctnetlink)
//
// What it does not do: touch TCP or SCTP, whose peers notice by themselves
// (F-18), flush anything on a start, or delete an entry that it can't prove to
// belong to a service. It runs beside any backend that translates addresses in
// the kernel and knows none of them.
package conntrack
