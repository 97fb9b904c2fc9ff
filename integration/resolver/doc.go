// Package resolver tests the built program with what people ask with: dig,
// kdig, drill, nslookup, and the resolvers of glibc and musl, through a
// resolv.conf as pods have it, with a search path and ndots:5.
//
//	tool ── resolv.conf ──> signpost serve, 127.0.0.1:53 ──> upstream, 127.0.0.2:53
//
// All of it is in one host of a lab, a network namespace; resolv.conf is mounted
// in a mount namespace of each tool's own. The cluster is testdata/manifests,
// the upstream a few records in the test. Tools that are not installed are
// skipped by name; with REQUIRE_KERNEL in the environment, they fail.
//
// What every single answer has to be is tested beside the code; here it is that
// resolvers find with these answers what they look for, and at once.
package resolver
