package sysctl

import (
	"path/filepath"
	"time"
)

// ConntrackLimits are the settings of connection tracking that whoever runs the
// node may choose, as with kube-proxy's --conntrack-… flags
// (vip-requirements §1.3). A zero leaves the kernel's own setting.
type ConntrackLimits struct {
	// The table has room for MaxPerCPU entries per CPU, but at least for Min.
	MaxPerCPU, Min int
	// Established and CloseWait are how long the entry of a TCP connection
	// without traffic lives.
	Established, CloseWait time.Duration
	// BeLiberal lets segments pass that are outside the window, instead of
	// taking them for invalid (B56).
	BeLiberal bool
	// UDP is how long the entry of a flow with one packet lives, UDPStream that
	// of a flow which goes both ways.
	UDP, UDPStream time.Duration
}

// DefaultConntrack are kube-proxy's defaults.
func DefaultConntrack() ConntrackLimits {
	return ConntrackLimits{MaxPerCPU: 32768, Min: 131072, Established: 24 * time.Hour, CloseWait: time.Hour}
}

// Settings are what the limits mean on a machine with so many CPUs. They are
// only ever raised; but the UDP timeouts, which may be wanted shorter.
func (l ConntrackLimits) Settings(cpus int) []Setting {
	seconds := func(name string, d time.Duration, raise bool, why string) Setting {
		return Setting{Name: conntrackFolder + name, Value: int(d / time.Second), AtLeast: raise, Optional: true, Why: why}
	}
	entries := 0
	if l.MaxPerCPU > 0 {
		entries = max(l.Min, l.MaxPerCPU*cpus)
	}
	liberal := 0
	if l.BeLiberal {
		liberal = 1
	}
	var wanted []Setting
	for _, s := range []Setting{
		{Name: conntrackFolder + "max", Value: entries, AtLeast: true, Optional: true, Why: "every connection to a service takes an entry"},
		{Name: conntrackFolder + "tcp_be_liberal", Value: liberal, AtLeast: true, Optional: true, Why: "segments outside the window are not taken for invalid"},
		seconds("tcp_timeout_established", l.Established, true, "idle connections to services stay translated"),
		seconds("tcp_timeout_close_wait", l.CloseWait, true, "half-closed connections to services stay translated"),
		seconds("udp_timeout", l.UDP, false, "configured"),
		seconds("udp_timeout_stream", l.UDPStream, false, "configured"),
	} {
		if s.Value > 0 {
			wanted = append(wanted, s)
		}
	}
	return wanted
}

// LiberalConntrack reports whether connection tracking lets segments pass that
// are outside of the window.
func LiberalConntrack() bool {
	value, err := read(filepath.Join(Root, conntrackFolder+"tcp_be_liberal"))
	return err == nil && value != 0
}

const conntrackFolder = "net/netfilter/nf_conntrack_"
