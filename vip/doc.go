// Package vip makes the virtual addresses of Services work on one node.
//
//	discovery.Store ──────────────┬──────────────────────────────┐
//	   (desired)                  v                              v
//	NodeSource ──────────> Controller ────── Status ──────────> Gate
//	                         │      │   (applied, failed)        │
//	              Planner <──┘      v                            v
//	 Service ─> ServicePlan ─┐   Backend.Apply(have, want)   discovery.Store
//	 Service ─> ServicePlan ─┼─> State                          (visible)
//	 Service ─> ServicePlan ─┘
//
// A [Planner] decides what a service means on this node: a function of one
// service, one node and the options, in small steps that stand in the files
// plan*.go (vip-requirements P-01…P-29). Its result is a [State]: the virtual
// servers by frontend, each with its endpoints and what to do with a packet
// from a pod, from the node and from outside. A [Backend] makes a state true,
// and decides nothing. The [Controller] is the one loop: it plans, applies,
// retries, looks again and heals. The [Gate] keeps names out of DNS whose
// addresses don't work yet.
//
// The package does not watch a source (discovery does), does not touch the
// kernel (backends do), does not answer health checks and does not clean
// connection tracking (services beside it do, from [Status]).
//
// # Invariants
//
//   - A State and all that is in it never changes. What is equal is the same
//     pointer from one state to the next, so a difference costs what differs.
//   - Next(prev, before, after, node) equals Plan(after, node), for any history.
//   - A frontend has one owner: the claimant of a cluster address, else the
//     oldest, else the first by name. The others wait and take over (P-26).
//   - Nothing is written before the source is synced and the node is known
//     (P-23); nothing is removed when the controller ends (L-01).
//   - What can't be programmed costs itself and nobody else: planning leaves it
//     out with a warning, the controller quarantines it (P-25).
//   - A name becomes visible after its rules, and goes before them.
//
// [State.String] is the text form: what "signpost vip plan" prints, and what
// the transcripts in testdata hold.
package vip
