// Package endpoints is the brain of the endpoints controllers: pure functions
// from a Service, the pods of its namespace and the nodes to the
// EndpointSlices (or the Endpoints object) that the control plane of a cluster
// would write. It is used where there is no such control plane: over a folder
// of manifests, or against a bare API server.
//
//	Service with a selector, Pods, Nodes ──> Options.Slices ──┐
//	                                                          ├──> []*EndpointSlice
//	Service without one, hand-written Endpoints ──> Mirror ───┘
//	Service, Pods ──> Endpoints (legacy object)
//	Service, Pod  ──> Matches, Excluded (for people)
//
// It reads no clock, does no I/O, keeps nothing between calls, and never
// changes an object that it was given.
//
// # What the caller does
//
// The result is the complete desired state of one service. Of the slices that
// carry the service's name and one of [ManagedBy], [MirrorManagedBy], those
// that are not in the result are to be deleted. A slice of the result that is
// the same pointer as one of the existing needs no write; one with a resource
// version needs an update; one without needs a create.
//
// # Invariants
//
//   - The same input gives the same output, whatever the order of the pods: also
//     the names of new slices are derived, not drawn.
//   - Given its own result as existing, a function returns the same pointers.
//   - A change of one endpoint changes one slice: endpoints stay in the slice
//     where they are; free places are filled before a slice is added.
//   - Malformed addresses are left out; the packages that read the objects report
//     them.
package endpoints
