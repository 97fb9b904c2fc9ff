package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/internal/ruleset"
)

// probeKey is a frontend that nobody has (TEST-NET-2, RFC 5737); kube-proxy
// tries the same one.
var probeKey = serverKey{frontend: vip.Frontend{Addr: netip.MustParseAddr("198.51.100.0"), Port: 20000, Protocol: discovery.TCP}}

// Probe implements [vip.Backend]. It makes an IPVS server with the scheduler,
// reads it back and removes it (I-01, B13), and has nf_tables try the rules,
// which this mode needs for SNAT and filters.
func (b *Backend) Probe(ctx context.Context) error {
	if err := checkFlags(b.config.SchedulerFlags); err != nil {
		return fmt.Errorf("probing ipvs: %w", err)
	}
	kernel, err := openKernel()
	if err != nil {
		return fmt.Errorf("probing ipvs: %w", err)
	}
	defer kernel.close()
	if err := probeServer(ctx, kernel, serverSpec{scheduler: b.config.Scheduler, flags: b.flags[b.config.Scheduler]}); err != nil {
		return fmt.Errorf("probing ipvs: %w", err)
	}
	conn, err := ruleset.Open(tableName+"-probe", allSets)
	if err != nil {
		return fmt.Errorf("probing ipvs: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.Try(ctx, skeleton(&vip.Node{}, false)); err != nil {
		return fmt.Errorf("probing ipvs: nf_tables, which masquerades and filters in this mode: %s", ruleset.Reason(err,
			"a kind of rule or set (NAT, masquerading, fib, reject, conntrack in family inet)"))
	}
	return nil
}

var flagNames = []string{"sh-fallback", "sh-port", "mh-fallback", "mh-port"}

func checkFlags(names []string) error {
	for _, name := range names {
		if !slices.Contains(flagNames, name) {
			return fmt.Errorf("scheduler flag %q: must be one of %v", name, flagNames)
		}
	}
	return nil
}

func probeServer(ctx context.Context, k kernel, spec serverSpec) error {
	err := k.addServer(ctx, probeKey, spec)
	if err != nil && !errors.Is(err, unix.EEXIST) { // an earlier probe was killed
		if errors.Is(err, unix.EPERM) {
			return errors.New("permission denied: CAP_NET_ADMIN is needed")
		}
		return refuseServer(probeKey, spec, err)
	}
	list, err := k.servers(ctx)
	if err != nil {
		return err
	}
	if err := k.deleteServer(ctx, probeKey); err != nil {
		return fmt.Errorf("removing the IPVS server that was tried: %w", err)
	}
	if !slices.ContainsFunc(list, func(l listed) bool { return l.key == probeKey }) {
		return errors.New("the kernel took an IPVS server and does not have it: is the module ip_vs loaded?")
	}
	return nil
}
