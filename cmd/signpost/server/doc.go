// Package server wires the parts of a running signpost together and owns their
// life: start, reload, end.
//
//	source ──> desired store ──┬──────────────> vip.Controller ──> backend
//	                           │                      │ applied
//	                           └──────────────> vip.Gate ──> visible store
//	                                                              │
//	         (without a dataplane: the desired store) ──> dnsserver zones ──> clients
//
// Beside it stand the HTTP endpoints (health, ready, metrics, healthz) and the
// admin socket, which read the same immutable values.
//
// It knows all the parts and does nothing that one of them could do: no policy,
// no parsing, no answering.
//
// A reload builds and validates everything first and swaps then; on an error the
// old configuration goes on. Parts whose configuration did not change are kept,
// with their sockets, watches and rules.
package server
