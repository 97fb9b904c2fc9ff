package vip

// routes decides what becomes of a new connection, for each place that it can
// come from. Local is the traffic policy that applies to the kind of address;
// hasAny says whether any endpoint could serve, on whichever node.
//
//	                 pod               node               outside
//	ClusterIP        cluster           cluster+snat       cluster+snat   P-14
//	  iTP Local      local             local+snat         local+snat     F-11
//	external         cluster+snat      cluster+snat       cluster+snat   P-13
//	  eTP Local      cluster           cluster+snat       local          P-13
//
// Masquerade-all adds snat to a pod's traffic to cluster addresses. A detector
// that can't tell pods makes pods the same as outside, and then the outside's
// traffic to cluster addresses is not masqueraded (P-20). A process on the node
// always is: it may have chosen any local address as its source (P-14, I-12).
func routes(kind Kind, local bool, node *Node, hasAny bool) [len(Sources)]Route {
	var r [len(Sources)]Route
	if kind.External() {
		r = externalRoutes(local)
	} else {
		r = internalRoutes(local, node)
	}
	if node.Detector.None() {
		r[FromPod] = r[FromOutside]
	}
	for i := range r {
		r[i].Empty = emptyVerdict(r[i].Set, hasAny)
	}
	return r
}

func internalRoutes(local bool, node *Node) [len(Sources)]Route {
	set := ClusterSet
	if local {
		set = LocalSet
	}
	return [...]Route{
		FromPod:     {Set: set, SNAT: node.MasqueradeAll},
		FromNode:    {Set: set, SNAT: true},
		FromOutside: {Set: set, SNAT: node.MasqueradeAll || !node.Detector.None()},
	}
}

func externalRoutes(local bool) [len(Sources)]Route {
	if !local {
		everyone := Route{Set: ClusterSet, SNAT: true}
		return [...]Route{FromPod: everyone, FromNode: everyone, FromOutside: everyone}
	}
	return [...]Route{
		FromPod:     {Set: ClusterSet},
		FromNode:    {Set: ClusterSet, SNAT: true},
		FromOutside: {Set: LocalSet}, // the client's address is preserved
	}
}

// emptyVerdict is what to do without an endpoint (P-12): refuse at once, unless
// other nodes have endpoints; then say nothing, so that the client or the load
// balancer in front tries elsewhere.
func emptyVerdict(set Set, hasAny bool) Verdict {
	if set == LocalSet && hasAny {
		return Drop
	}
	return Reject
}
