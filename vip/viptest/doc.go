// Package viptest tells whether a dataplane does what a [vip.State] means.
//
//	            ┌──────────> Expect ───────> Outcome ┐
//	State, Packet                                    ├─ Outcome.Check
//	            └─> Backend.Apply, Connect ─> Result ┘
//
// [Expect] is the meaning: a function from a state and a packet to what has to
// happen. Every backend is compared with it: the fake in this package, which is
// a map that behaves like a kernel, as much as those that program a real one.
//
//   - [Fake] is a backend without a kernel. It refuses duplicates, counts what
//     it is asked, answers packets and reports callers that break the contract.
//   - [Faults] and [Faulty] let operations and whole applies go wrong: one in
//     ten, unless a test says otherwise, by a seed that the test logs.
//   - [ParseWorld] reads a small cluster from text, [Churn] makes random ones
//     with broken objects in them.
//   - [Model] runs the properties that every backend has to have; [Packets]
//     lists the packets worth sending.
//
// It does not look at rules, sets or virtual servers in a kernel: only packets
// count.
package viptest
