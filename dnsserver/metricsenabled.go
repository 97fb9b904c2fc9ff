package dnsserver

import (
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

var descEnabled = prometheus.NewDesc("coredns_plugin_enabled", "1 for each directive that is on and sees queries.",
	[]string{"server", "zone", "view", "name"}, nil)

// enabled lists the directives that are on in the blocks that count, by the
// names that CoreDNS's plugins have. As there, those that no query passes
// through are left out: bind, health, reload.
func enabled(cfg Config) map[blockKey][]string {
	all := map[blockKey][]string{}
	for i := range cfg.Blocks {
		b := &cfg.Blocks[i]
		if !b.Metrics {
			continue
		}
		names := b.links()
		for _, addr := range b.Listen {
			ap, _ := splitListen(addr) // checked by validate
			for _, zone := range b.Zones {
				all[blockKey{serverLabel(b.Transport, ap), dns.CanonicalName(zone)}] = names
			}
		}
	}
	return all
}

// links names what is on in a block that counts.
func (b *Block) links() []string {
	names := []string{"prometheus"}
	for _, link := range []struct {
		name string
		on   bool
	}{
		{"acl", len(b.ACL) > 0},
		{"any", b.MinimalANY},
		{"autopath", b.AutoPath != nil},
		{"bufsize", b.MaxUDPSize != 0},
		{"cache", b.Cache != nil},
		{"dns64", b.DNS64 != nil},
		{"errors", b.Errors},
		{"forward", len(b.Forwards) > 0},
		{"hosts", b.Hosts != nil},
		{"kubernetes", b.Cluster != nil},
		{"loadbalance", b.LoadBalance != nil},
		{"local", b.Local != nil},
		{"log", len(b.Logs) > 0},
		{"loop", b.Loop},
		{"minimal", b.Minimal},
		{"ratelimit", b.RateLimit != nil},
		{"rewrite", len(b.Rewrites) > 0},
		{"template", len(b.Templates) > 0},
		{"transfer", len(b.Transfers) > 0},
		{"whoami", b.Whoami},
	} {
		if link.on {
			names = append(names, link.name)
		}
	}
	return names
}

// setEnabled replaces what is shown as on.
func (m *metrics) setEnabled(all map[blockKey][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enabled = all
}

// collectEnabled emits what is on.
func (m *metrics) collectEnabled(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	all := m.enabled // replaced, never changed
	m.mu.Unlock()
	for key, names := range all {
		for _, name := range names {
			ch <- prometheus.MustNewConstMetric(descEnabled, prometheus.GaugeValue, 1, key.server, key.zone, "", name)
		}
	}
}
