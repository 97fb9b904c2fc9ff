// Package convert turns Kubernetes API objects into the model of package
// discovery, and stands in for an API server where there is none: it fills in
// defaults and refuses what an API server would refuse with a 422.
//
//	manifest ──decode──> object ─Default─> object ─Validate─┬─> Service, Slice, Pod, Node ──> model
//	                                                        └─> Refusal (every problem, by field path)
//	API server ─────────> object (defaulted and validated) ───> Service, Slice, Pod, Node ──> model
//
// It knows the kinds Service, Endpoints, EndpointSlice, Pod, Node and
// Namespace. [Options.Default] and [Options.Validate] are for sources that
// read what people write; the conversions take any object, defaulted or not,
// because an API server of another version may sit behind them: they never
// fail, but leave out what is unusable and say so in warnings.
//
// What it does not do: it knows one object at a time. Whether a cluster IP or
// a node port is in range or taken is the allocator's business, which
// endpoints a selector makes is the endpoints controller's.
//
// Invariants:
//   - Every address in the model is canonical: no leading zeros, no zone,
//     IPv4-mapped addresses as IPv4 (vip-requirements P-09).
//   - Nothing panics, whatever the object holds.
//   - The model shares maps (labels, selector) with the object that it was
//     made from, so the object must not change after its conversion.
package convert
