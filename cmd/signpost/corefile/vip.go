package corefile

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"signpost/vip/sysctl"
)

// Modes are the values of "vip { mode … }". The last one is Windows' and can
// never run: naming it is an error of the start, which says so.
var Modes = []string{"auto", "ipvs", "nftables", "iptables", "userspace", "off", "kernelspace"}

// defaultScheduler is what the ipvs backend does if nobody asks for anything.
const defaultScheduler = "rr"

var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh"}

// vip reads "vip { … }": there is a dataplane.
func (b *builder) vip(s *scan) {
	s.noArgs()
	v := &VIP{
		Place: s.place(), Mode: "auto", Scheduler: defaultScheduler, Healthz: defaultHealthz,
		MinSyncPeriod: 10 * time.Millisecond, SyncPeriod: 30 * time.Second, Gate: true,
		Conntrack: sysctl.DefaultConntrack(), IPVS: IPVS{Drain: time.Hour},
	}
	options := conntrackOptions(&v.Conntrack)
	maps.Copy(options, policyOptions(v))
	maps.Copy(options, ipvsOptions(&v.IPVS))
	maps.Copy(options, map[string]func(*scan){
		"mode":                func(o *scan) { v.Mode = o.oneOf(Modes...) },
		"scheduler":           func(o *scan) { v.Scheduler = o.oneOf(schedulers...) },
		"cluster_cidr":        func(o *scan) { v.ClusterCIDRs = o.prefixes(1, -1, "one or more networks") },
		"masquerade_all":      func(o *scan) { o.noArgs(); v.MasqueradeAll = true },
		"interface_prefix":    func(o *scan) { v.InterfacePrefix = o.word("the beginning of interface names") },
		"node_name":           func(o *scan) { v.NodeName = o.word("a name") },
		"node_port_addresses": func(o *scan) { v.NodePortPrimary, v.NodePortAddresses = nodePortAddresses(o) },
		"healthz":             func(o *scan) { v.Healthz = o.listen(defaultHealthz) },
		"min_sync_period":     func(o *scan) { v.MinSyncPeriod = o.duration(0, time.Hour) },
		"sync_period":         func(o *scan) { v.SyncPeriod = o.duration(100*time.Millisecond, longest) },
		"gate":                func(o *scan) { v.Gate = o.oneOf("on", "off") == "on" },
	})
	s.options(options)
	if v.MinSyncPeriod > v.SyncPeriod {
		s.errorf("min_sync_period %s: must be at most sync_period, %s", v.MinSyncPeriod, v.SyncPeriod)
	}
	if v.Scheduler != defaultScheduler {
		v.Policy.Scheduler = v.Scheduler
	}
	v.checkDetector(s)
	b.config.VIP = v
	if v.Mode == "off" {
		b.config.VIP = nil
	}
}

// nodePortAddresses reads "primary" or networks (P-22).
func nodePortAddresses(o *scan) (primary bool, list []netip.Prefix) {
	if slices.Equal(o.args, []string{"primary"}) {
		return true, nil
	}
	return false, o.prefixes(1, -1, `"primary" or networks`)
}
