package ipvs

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A captured packet is routed by its mark: one rule and one route per address
// family, whatever the number of addresses.
//
//	ip rule  add priority 84 fwmark 0x1000/0x1000 lookup 84
//	ip route add local default dev lo table 84

// capture makes the rule and the route of a family, if they are not there.
func (r *rtnetlink) capture(family uint16) error {
	there, err := r.capturing(family)
	if err != nil || there {
		return err
	}
	if err := r.handle.RouteReplace(r.everythingLocal(family)); err != nil {
		return fmt.Errorf("making everything local in route table %d: %w", RouteTable, err)
	}
	if err := r.handle.RuleAdd(captureRule(family)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("adding the rule for route table %d: %w", RouteTable, err)
	}
	return nil
}

// capturing reports whether both are there.
func (r *rtnetlink) capturing(family uint16) (bool, error) {
	rules, err := r.rules(family)
	if err != nil {
		return false, err
	}
	right := func(r netlink.Rule) bool {
		return r.Mark == routeBit && r.Mask != nil && *r.Mask == routeBit && r.Priority == rulePriority
	}
	if !slices.ContainsFunc(rules, right) {
		return false, nil
	}
	routes, err := r.handle.RouteListFiltered(int(family), &netlink.Route{Table: RouteTable, Type: unix.RTN_LOCAL}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
	if err != nil {
		return false, fmt.Errorf("listing route table %d: %w", RouteTable, err)
	}
	return len(routes) > 0, nil
}

// release removes both.
func (r *rtnetlink) release(family uint16) error {
	rules, err := r.rules(family)
	if err != nil {
		return err
	}
	var errs []error
	for range rules {
		if err := r.handle.RuleDel(captureRule(family)); err != nil && !gone(err) {
			errs = append(errs, fmt.Errorf("removing the rule for route table %d: %w", RouteTable, err))
		}
	}
	if err := r.handle.RouteDel(r.everythingLocal(family)); err != nil && !gone(err) {
		errs = append(errs, fmt.Errorf("emptying route table %d: %w", RouteTable, err))
	}
	return errors.Join(errs...)
}

func (r *rtnetlink) rules(family uint16) ([]netlink.Rule, error) {
	rules, err := r.handle.RuleListFiltered(int(family), &netlink.Rule{Table: RouteTable}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("listing routing rules: %w", err)
	}
	return rules, nil
}

func captureRule(family uint16) *netlink.Rule {
	rule, mask := netlink.NewRule(), uint32(routeBit)
	rule.Family, rule.Priority, rule.Table, rule.Protocol = int(family), rulePriority, RouteTable, RouteProtocol
	rule.Mark, rule.Mask = routeBit, &mask
	return rule
}

func (r *rtnetlink) everythingLocal(family uint16) *netlink.Route {
	everything := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	if family == unix.AF_INET6 {
		everything = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	return &netlink.Route{
		LinkIndex: r.lo, Dst: everything, Family: int(family), Table: RouteTable, Type: unix.RTN_LOCAL,
		Scope: netlink.SCOPE_HOST, Protocol: RouteProtocol,
	}
}
