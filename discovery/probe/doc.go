// Package probe runs the readiness probes of pods where there is no kubelet to
// do it: over a folder of manifests.
//
//	Set(pods) ──> pod states ──> probes, by due time ──> HTTP, TCP, gRPC checks
//	                  │                                         │
//	Ready(key) <──────┴──────── thresholds <────────────────────┘
//	changed(key, ready) <── each flip
//
// Probes mean what they mean to a kubelet: the same defaults and thresholds, a
// pod is not ready before its first success, HTTP status 200 to 399 is a
// success, certificates are not verified, and redirects are followed on the same
// host only (one to another host is a success). A pod is ready when all its
// containers and readiness gates are.
//
// It does not run startup and liveness probes, since nothing here starts or
// kills containers, and it can't run exec probes, since it is not inside the
// container: of such a pod the Ready condition in its status counts. So it does,
// where there is one, for a pod without any readiness probe; without a condition
// that pod is ready when its phase is Running.
//
// # Invariants
//
//   - [Prober.Set] is declarative: a pod that did not change keeps its state and
//     its turn.
//   - A bounded number of checks runs at once; the others wait their turn, the
//     longest due first. Many new pods start spread over time, a few at once.
//   - Flips are reported one after the other, never twice the same value for a
//     pod; none for a pod that is gone.
//   - One goroutine keeps the schedule, one more runs for each check under way.
//     [Prober.Close] waits for all.
package probe
