package server

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"signpost/cmd/signpost/corefile"
	"signpost/vip"
	"signpost/vip/conntrack"
	"signpost/vip/nodeaddrs"
	"signpost/vip/sysctl"
)

// nodeConfig is what Corefile and source say about this machine.
func nodeConfig(config *corefile.Config, mode string) (nodeaddrs.Config, error) {
	v := config.VIP
	name := v.NodeName
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nodeaddrs.Config{}, fmt.Errorf("finding the host name (set node_name): %w", err)
		}
		name = strings.ToLower(strings.TrimSpace(host))
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

// programsKernel reports whether a mode has the kernel translate addresses. Its
// settings and its table of connections then have to be looked after.
func programsKernel(mode string) bool { return mode != "userspace" }

// services are the loops beside the controller that the mode needs.
func (p *plane) services() []func(context.Context) {
	if !programsKernel(p.backend.Name()) {
		return nil
	}
	return []func(context.Context){
		func(ctx context.Context) { _ = p.conntrack.Run(ctx) }, // it has no error but the context's
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

func newReconciler(p *plane) *conntrack.Reconciler {
	return conntrack.New(conntrack.Config{Status: p.controller, Table: conntrack.Kernel{}, Log: p.log})
}
