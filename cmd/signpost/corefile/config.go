package corefile

import (
	"fmt"
	"net/netip"
	"time"

	"signpost/discovery/manifest"
	"signpost/dnsserver"
	"signpost/vip"
	"signpost/vip/sysctl"
)

// Config is what a Corefile says.
type Config struct {
	Servers []*Server

	Manifests   *manifest.Config // nil: the source is an API server
	ManifestsAt Place
	VIP         *VIP   // nil: no dataplane
	Admin       string // "unix://PATH"; empty: the default

	Health  []string // addresses, each once
	Ready   []string
	Metrics []string
	// Lameduck is how long to go on answering after the signal to end: the
	// longest of all blocks.
	Lameduck time.Duration
	Reload   Reload
	// Digest tells configurations apart: it is the same for two texts that mean
	// the same, comments and line breaks aside.
	Digest string
}

// Place is where something stands in a Corefile.
type Place struct {
	File string
	Line int // from 1
}

// Errorf returns a problem of the thing at the place; subject is its name.
func (p Place) Errorf(subject, format string, args ...any) Errors {
	return Errors{{File: p.File, Line: p.Line, Subject: subject, Problem: fmt.Sprintf(format, args...)}}
}

// Server is one server block.
type Server struct {
	Place

	Addresses  []Address
	Bind       []string // addresses and interfaces; empty: all
	BindExcept []string

	// Block is what the DNS server needs of it. Zones and Listen are empty:
	// they follow from Addresses, Bind and the machine's interfaces. Cluster
	// is empty too: it follows from the field below and the source.
	Block   dnsserver.Block
	Cluster *Cluster // nil: none
	TLS     *TLS     // nil: no certificate
}

// Reload says when to look at the Corefile again.
type Reload struct {
	Interval time.Duration // 0: never
	Jitter   time.Duration
}

// VIP is the dataplane.
type VIP struct {
	Place

	Mode              string
	Scheduler         string
	ClusterCIDRs      []netip.Prefix
	InterfacePrefix   string
	MasqueradeAll     bool
	NodeName          string
	NodePortPrimary   bool           // node_port_addresses primary
	NodePortAddresses []netip.Prefix // empty: as the mode does it
	Healthz           string
	MinSyncPeriod     time.Duration
	SyncPeriod        time.Duration
	Gate              bool

	Policy           vip.Options
	PodCIDRsFromNode bool                   // detect_local_mode NodeCIDR
	Conntrack        sysctl.ConntrackLimits // set in the modes that program the kernel
	IPVS             IPVS
}

// IPVS are the options of mode ipvs alone.
type IPVS struct {
	Drain     time.Duration // at most for the connections of an endpoint that left; negative: no bound
	StrictARP bool
	Flags     []string // of the schedulers; nil: mh-port, as with kube-proxy
}
