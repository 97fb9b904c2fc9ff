package admin

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion is the version of the kinds that are this program's own.
const APIVersion = "signpost/v1"

// The names of the resources, as they stand in a path.
const (
	Services       = "services"
	Endpoints      = "endpoints"
	Pods           = "pods"
	Records        = "records"
	VirtualServers = "virtualservers"
)

// List is the answer to a listing: a Kubernetes List.
type List struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ListMeta   `json:"metadata"`
	Items           []json.RawMessage `json:"items"`
}

// Event is one line of a watch: what happened to an object.
type Event struct {
	// Type is "ADDED", "MODIFIED" or "DELETED", as in a watch of Kubernetes, or
	// "BOOKMARK" once all objects that there were have been sent.
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// Status is the answer to GET /v1/status.
type Status struct {
	Revision uint64   `json:"revision"` // of the desired snapshot
	Synced   bool     `json:"synced"`
	Mode     string   `json:"mode"` // of the dataplane; "off" without one
	Waiting  []string `json:"waiting,omitempty"`
}

// Record is one resource record that the server answers with.
type Record struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"` // of the service that it belongs to

	Owner string `json:"owner"` // the record's name, fully qualified
	TTL   uint32 `json:"ttl"`   // seconds
	Type  string `json:"type"`  // "A"
	Data  string `json:"data"`  // in presentation format
}

// VirtualServer is one frontend of the dataplane.
type VirtualServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"` // of the service that it belongs to

	Frontend     string           `json:"frontend"` // "10.96.0.1:443/TCP"
	PortName     string           `json:"portName,omitempty"`
	VirtualKind  string           `json:"virtualKind"` // "ClusterIP", "NodePort", …
	Routes       map[string]Route `json:"routes"`      // by source: pod, node, outside
	Cluster      []string         `json:"clusterEndpoints,omitempty"`
	Local        []string         `json:"localEndpoints,omitempty"`
	Affinity     string           `json:"affinity,omitempty"`     // a duration
	SourceRanges []string         `json:"sourceRanges,omitempty"` // empty and restricted: nobody
	Restricted   bool             `json:"restricted,omitempty"`
	Scheduler    string           `json:"scheduler,omitempty"`
	// Applied tells whether the dataplane is known to hold it; nil in a plan.
	Applied *bool `json:"applied,omitempty"`
	// Losers are the services that want this frontend too and don't have it.
	Losers []string `json:"losers,omitempty"`
}

// Route is what a new connection from one source meets.
type Route struct {
	Set   string `json:"set"` // "cluster" or "local"
	SNAT  bool   `json:"snat"`
	Empty string `json:"empty"` // "reject" or "drop"
}
