// Package allocator gives Services their numbers: cluster IPs, node ports,
// health-check node ports and load-balancer addresses.
//
// What an API server's registry does in its storage, this package does in
// memory with a state file, so that a folder of manifests has the same
// addresses after every restart.
//
//	Request ──> settle ──> shed ──> claim ──> pick ──> Result
//	            what stays  what    named     the rest,
//	            of before   goes    values    at random
//	                          │
//	       state file ──Load──┴──Save──> state file
//
// A batch is worked through in that order for all its requests together, so
// named values win over random ones and two services may swap an
// address in one change. Inside a step the order is by creation time, then that
// of the batch. What was remembered from the state file counts as held: a newcomer
// never takes it from a service that still wants it.
//
// What it does not: it knows no Kubernetes types, checks no syntax and
// publishes nothing.
//
// Invariants:
//   - A request is granted completely or not at all (a load-balancer address
//     excepted: a service without one works, it is just pending).
//   - A cluster IP and a load-balancer address have one owner. A node port has
//     one owner, who may use it for several protocols.
//   - The file on disk is always a complete state: it is replaced by a rename,
//     never written in place. A file that can't be understood is never touched.
//   - The cost of a change is that of the changed services, apart from writing
//     the file, which costs one copy of it.
//
// An Allocator is for one goroutine.
package allocator
