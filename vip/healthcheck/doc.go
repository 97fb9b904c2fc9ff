// Package healthcheck answers on health-check node ports: it tells the load
// balancer in front of a Service with externalTrafficPolicy Local whether this
// node has endpoints that can take its traffic (F-09).
//
//	vip.Controller --status--> Server --one HTTP server a port--> load balancer
//	vip.NodeSource --addresses---^
//
// The answer is 200 if there is a ready endpoint on this node, its rules are in,
// and the dataplane keeps up; else 503. Body and headers are kube-proxy's:
//
//	X-Load-Balancing-Endpoint-Weight: 2
//	{"service": {"namespace": "shop", "name": "web"}, "localEndpoints": 2, "serviceProxyHealthy": true}
//
// A port is one server, whatever the families and however many addresses. The
// addresses are those of node ports, and follow them. A port that can't be
// opened is reported once, tried again until it can, and stops no other (X21).
//
// Ports that are not wanted any more are closed before others are opened, so
// that what the node has room for never depends on the order. A port that goes
// from one Service to another stays open and changes its answer.
package healthcheck
