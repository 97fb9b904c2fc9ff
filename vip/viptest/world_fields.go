package viptest

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"signpost/discovery"
	"signpost/vip"
)

// fields is a table: the key of a field, and what reads its value.
type fields map[string]func(value string) error

func (f fields) set(key, value string) error {
	read, ok := f[key]
	if !ok {
		return fmt.Errorf("no field %q", key)
	}
	return read(value)
}

func nodeFields(n *vip.Node) setter {
	return fields{
		"zone":           into(&n.Zone, text),
		"addrs":          listInto(&n.Addrs, netip.ParseAddr),
		"nodeports":      listInto(&n.NodePortAddrs, netip.ParseAddr),
		"peers":          listInto(&n.PeerAddrs, netip.ParseAddr),
		"pods":           listInto(&n.Detector.CIDRs, netip.ParsePrefix),
		"iface":          into(&n.Detector.InterfacePrefix, text),
		"services":       listInto(&n.ServiceCIDRs, netip.ParsePrefix),
		"masquerade-all": flag(func() { n.MasqueradeAll = true }),
	}.set
}

func serviceFields(s *discovery.Service) setter {
	return fields{
		"type":      into(&s.Type, named(map[string]discovery.Type{"NodePort": discovery.TypeNodePort, "LoadBalancer": discovery.TypeLoadBalancer, "ExternalName": discovery.TypeExternalName})),
		"headless":  flag(func() { s.Kind = discovery.Headless }),
		"ips":       listInto(&s.ClusterIPs, netip.ParseAddr),
		"external":  listInto(&s.ExternalIPs, netip.ParseAddr),
		"lb":        listInto(&s.LoadBalancerIPs, netip.ParseAddr),
		"ports":     listInto(&s.Ports, servicePort),
		"etp":       into(&s.ExternalPolicy, named(map[string]discovery.TrafficPolicy{"Local": discovery.PolicyLocal})),
		"itp":       into(&s.InternalPolicy, named(map[string]discovery.TrafficPolicy{"Local": discovery.PolicyLocal})),
		"hc":        into(&s.HealthCheckNodePort, number),
		"created":   into(&s.Created, timestamp),
		"proxy":     also(into(&s.Proxy, text), func() { s.HasProxy = true }),
		"ranges":    also(listInto(&s.SourceRanges, netip.ParsePrefix), func() { s.SourceRangesSet = true }),
		"affinity":  also(into(&s.Affinity.Timeout, time.ParseDuration), func() { s.Affinity.ClientIP = true }),
		"scheduler": func(v string) error { s.Annotations = map[string]string{vip.SchedulerAnnotation: v}; return nil },
	}.set
}

func sliceFields(s *discovery.Slice) setter {
	return fields{
		"ports":   listInto(&s.Ports, endpointPort),
		"trigger": into(&s.Trigger, timestamp),
	}.set
}

func endpointFields(slice *discovery.Slice, address string) (setter, error) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return nil, fmt.Errorf("reading an endpoint's address: %w", err)
	}
	slice.Endpoints = append(slice.Endpoints, discovery.Endpoint{Addr: addr, Ready: true, Serving: true})
	e := &slice.Endpoints[len(slice.Endpoints)-1]
	return fields{
		"node":        into(&e.Node, text),
		"zone":        into(&e.Zone, text),
		"zones":       listInto(&e.ForZones, text),
		"nodes":       listInto(&e.ForNodes, text),
		"pod":         also(into(&e.Target.Name, text), func() { e.Target.Kind = "Pod" }),
		"notready":    flag(func() { e.Ready, e.Serving = false, false }),
		"serving":     flag(func() { e.Serving = true }),
		"terminating": flag(func() { e.Ready, e.Terminating = false, true }),
	}.set, nil
}

func text(v string) (string, error) { return v, nil }

func timestamp(v string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading a time: %w", err)
	}
	return t, nil
}

func number(v string) (uint16, error) {
	n, err := strconv.ParseUint(v, 10, 16)
	return uint16(n), err
}

// servicePort reads "NAME:80/UDP->30080"; all but the number may be missing.
func servicePort(v string) (discovery.Port, error) {
	front, nodePort, isNodePort := strings.Cut(v, "->")
	e, err := endpointPort(front)
	p := discovery.Port{Name: e.Name, Protocol: e.Protocol, Port: e.Port}
	if err == nil && isNodePort {
		p.NodePort, err = number(nodePort)
	}
	return p, err
}

// endpointPort reads "NAME:8080/UDP".
func endpointPort(v string) (discovery.EndpointPort, error) {
	name, rest, hasName := strings.Cut(v, ":")
	if !hasName {
		name, rest = "", v
	}
	digits, protocolName, _ := strings.Cut(rest, "/")
	protocol, err := discovery.ParseProtocol(protocolName)
	if err != nil {
		return discovery.EndpointPort{}, err
	}
	port, err := number(digits)
	return discovery.EndpointPort{Name: name, Protocol: protocol, Port: port}, err
}

func into[T any](field *T, parse func(string) (T, error)) func(string) error {
	return func(v string) (err error) {
		*field, err = parse(v)
		return err
	}
}

func listInto[T any](field *[]T, parse func(string) (T, error)) func(string) error {
	return func(v string) error {
		for _, item := range strings.Split(v, ",") {
			if item == "" {
				continue
			}
			parsed, err := parse(item)
			if err != nil {
				return err
			}
			*field = append(*field, parsed)
		}
		return nil
	}
}

func flag(set func()) func(string) error {
	return func(string) error { set(); return nil }
}

func also(read func(string) error, set func()) func(string) error {
	return func(v string) error { set(); return read(v) }
}

func named[T any](names map[string]T) func(string) (T, error) {
	return func(v string) (T, error) {
		value, ok := names[v]
		if !ok && v != "Cluster" && v != "ClusterIP" {
			return value, fmt.Errorf("unknown value %q", v)
		}
		return value, nil
	}
}
