// Package flood tests that the built program stands a flood: random and
// malformed datagrams and valid queries, mixed, from many ports at once, some
// of them for names whose upstream is silent. Its memory has to stay flat, it
// has to go on answering, and what it drops has to be counted (A41).
//
//	worker ──── 128 datagrams, then a question ────> signpost, its own process
//	       <─── … the question's answer ────────────
//
// All but a tenth of the flood goes at the pace of the answers, so that the
// program and not the kernel's buffer sees each datagram; the last tenth goes
// as fast as it can be sent.
//
// "go test" sends 100,000; "make flood" sends PACKETS (10 million) and prints
// figures. It ends by itself, by count and by time, and never leaves loopback.
package flood
