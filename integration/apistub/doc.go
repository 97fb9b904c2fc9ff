// Package apistub is a small API server in memory, for tests: it lists and
// watches Services, EndpointSlices, Namespaces, Nodes, Pods and ServiceCIDRs, with
// resource versions, initial events and bookmarks, and fails in all the ways in
// which a real one does.
//
//	test ──Put, Delete──> objects, one log of events ──list, watch──> client under test
//	test ──Compact, CloseWatches, Down, Clear, Intercept──> what goes wrong
//
// What it does not: selectors (fields and labels), writes over HTTP, other
// kinds, validation. For that there is the real one.
package apistub
