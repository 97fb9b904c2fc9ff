package server

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/dataplane"
	"signpost/vip"
	"signpost/vip/conntrack"
	"signpost/vip/healthcheck"
	"signpost/vip/nodeaddrs"
	"signpost/vip/sysctl"
)

// nodeConfig is what Corefile and source say about this machine.
func nodeConfig(config *corefile.Config, mode string) (nodeaddrs.Config, error) {
	v := config.VIP
	name, err := nodeName(v)
	if err != nil {
		return nodeaddrs.Config{}, err
	}
	c := nodeaddrs.Config{
		Name: name, Mode: mode, MasqueradeAll: v.MasqueradeAll, PodCIDRsFromNode: v.PodCIDRsFromNode,
		Detector:  vip.Detector{CIDRs: v.ClusterCIDRs, InterfacePrefix: v.InterfacePrefix},
		NodePorts: nodeaddrs.Selection{Primary: v.NodePortPrimary, CIDRs: v.NodePortAddresses},
	}
	if config.Manifests != nil {
		c.ServiceCIDRs = config.Manifests.ServiceCIDRs
	}
	return c, nil
}

// nodeName is the name that the node has in the cluster.
func nodeName(v *corefile.VIP) (string, error) {
	if v.NodeName != "" {
		return v.NodeName, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("finding the host name (set node_name): %w", err)
	}
	return strings.ToLower(strings.TrimSpace(host)), nil
}

// programsKernel reports whether a mode has the kernel translate addresses. Its
// settings and its table of connections then have to be looked after.
func programsKernel(mode string) bool { return mode != "userspace" }

// services are the loops beside the controller that the mode needs. None has an
// error but the context's.
func (p *plane) services() []func(context.Context) {
	loops := []func(context.Context){p.tidy, func(ctx context.Context) { _ = p.health.Run(ctx) }}
	if programsKernel(p.backend.Name()) {
		loops = append(loops, func(ctx context.Context) { _ = p.conntrack.Run(ctx) })
	}
	return loops
}

// tidy removes what other modes have left, once this one's rules are in (L-02):
// first what they made in this process's time, then what others left.
func (p *plane) tidy(ctx context.Context) {
	if !p.inPlace(ctx) || !pause(ctx, settle) {
		return
	}
	ctx = context.WithoutCancel(ctx) // it is short, and half of it is of no use
	mode := p.backend.Name()
	keep := p.fleet.retire(ctx, mode)
	if p.exclusive {
		p.fleet.inherit(dataplane.Leftovers(ctx, mode, keep, p.options(), p.log), mode, keep)
		dataplane.CleanupOthers(ctx, keep, p.log)
	}
}

// settle is how long the old rules stay beside the new ones: connections that
// are half made by then become whole.
const settle = 250 * time.Millisecond

// pause waits; false: the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// inPlace waits until the dataplane equals a plan; false: the context has ended.
func (p *plane) inPlace(ctx context.Context) bool {
	for {
		status := p.controller.Status()
		if status.Applied != nil && status.LastError == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-p.controller.Changed(status):
		}
	}
}

// prepare sets what the mode needs of the kernel. What can't be set is logged:
// the rest may work all the same.
func (p *plane) prepare() {
	if !programsKernel(p.backend.Name()) {
		return
	}
	settings := append(sysctl.Forwarding(), p.config.Conntrack.Settings(runtime.NumCPU())...)
	_ = sysctl.Ensure(sysctl.Root, settings, p.log) // it logs each
}

func (p *plane) newReconciler(m *metrics) *conntrack.Reconciler {
	return conntrack.New(conntrack.Config{
		Status: p.controller, Table: conntrack.Kernel{}, Log: p.log,
		Observe: func(took time.Duration) { m.kubeproxy.reconciled.Observe(took.Seconds()) },
	})
}

func (p *plane) newHealthChecks() *healthcheck.Server {
	return healthcheck.New(healthcheck.Config{
		Status: p.controller, Nodes: p.nodes, Everywhere: p.settings.NodePorts.Everywhere(p.settings.Mode),
		Healthy: func() bool { return p.controller.Health().Healthy }, Log: p.log,
	})
}

// serviceCIDRs are the ranges in force, once they are known.
func (p *plane) serviceCIDRs() []netip.Prefix {
	if node := p.nodes.Current(); node != nil {
		return node.ServiceCIDRs
	}
	return p.settings.ServiceCIDRs
}

// configz is the part of the configuration that the dataplane runs with.
func (p *plane) configz() map[string]any {
	c := p.config
	return map[string]any{
		"mode": p.backend.Name(), "askedMode": c.Mode, "nodeName": p.settings.Name, "scheduler": c.Scheduler,
		"clusterCIDRs": c.ClusterCIDRs, "podCIDRsFromNode": c.PodCIDRsFromNode, "interfacePrefix": c.InterfacePrefix,
		"serviceCIDRs": p.serviceCIDRs(), "masqueradeAll": c.MasqueradeAll,
		"nodePortPrimary": c.NodePortPrimary, "nodePortAddresses": c.NodePortAddresses, "healthz": c.Healthz,
		"minSyncPeriod": c.MinSyncPeriod.String(), "syncPeriod": c.SyncPeriod.String(), "gate": c.Gate,
		"policy": c.Policy, "conntrack": c.Conntrack,
	}
}
