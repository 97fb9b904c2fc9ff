// Package kube keeps a store current with a Kubernetes API server: it lists and
// watches Services, EndpointSlices and Namespaces, and Nodes, ServiceCIDRs and
// Pods where they are wanted.
//
//	API server ──events──> items ──────> tables ──marks──> keys that changed
//	  list, watch          (converted     (one a kind)          │
//	  (client-go's          at once)                            v   1 ms later
//	  reflector)                        store <──one revision── services joined
//	                                                            with their slices
//
// The library's reflector does the talking: lists, watches, resource versions,
// pauses. What it is given to keep are not API objects but items, which hold the
// model's form: the published services share it, so that nothing is kept twice.
// Everything that arrives is converted object by object, streamed as a watch or
// as one long list, and an object that has not changed is the item that is
// there already. So a relist costs little more than its longest object
// (dns-requirements L6).
//
// What it does not: it writes nothing but events about services, reads no
// Endpoints, and knows neither DNS nor the dataplane. Filters (namespaces,
// labels, proxies' names) belong to those who answer: the store holds everything.
//
// Invariants:
//   - Nothing is published before every kind was delivered once (P-23).
//   - Only a complete, well-formed delivery takes objects away; one that is
//     empty where there was something must stay so for a minute first.
//   - A kind that the source can do without (ServiceCIDRs) and the server
//     doesn't have or show keeps nothing waiting, and is asked for again every
//     few minutes.
//   - While the API server is away, everything stays as it was (L4, X08), and
//     the log has one line for it.
//   - Events that come together become one revision; what is published at a
//     moment is the tables' state, so their order doesn't matter (X09).
//   - A connection that is dead is found within 30 s (B10).
package kube
