package main

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"signpost/vip/ipvs"
	"signpost/vip/viptest"
)

// needIPVS skips the test in a kernel without IPVS. "make integration-ipvs" runs
// it in a guest that has it, with REQUIRE_IPVS set, so that it can't be skipped.
func needIPVS(t *testing.T) {
	t.Helper()
	viptest.NeedRoot(t)
	err := ipvs.New(ipvs.Config{}).Probe(t.Context())
	switch {
	case err != nil && os.Getenv("REQUIRE_IPVS") != "":
		t.Fatal(err)
	case err != nil:
		t.Skipf("%v; make integration-ipvs runs it in a kernel that has it", err)
	}
}

// TestModeChangeIPVS is X22 to and from mode ipvs: connections find one mode or
// the other at any time, and those of the kernel's other modes live on.
func TestModeChangeIPVS(t *testing.T) {
	needIPVS(t)
	p := startProcess(t, newKernelFolder(t))
	conn, err := net.Dial("tcp", "10.96.0.80:80")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	p.changeModes("nftables", []string{"ipvs"})
	if got := talk(conn); got != "web hello" {
		t.Errorf("X22 a connection of mode nftables in mode ipvs: %q", got)
	}
	p.changeModes("ipvs", []string{"nftables", "ipvs", "iptables", "ipvs", "userspace", "ipvs"})
	p.expect(0, "", "vip", "diff")
	if conn, err = net.Dial("tcp", "10.96.0.80:80"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	p.changeModes("ipvs", []string{"nftables"})
	p.expect(0, "", "vip", "diff")
	p.end(syscall.SIGTERM)
	p = startProcess(t, p.dir)
	p.until(`msg="connections of an earlier dataplane go on" part=vip mode=ipvs`)
	if got := talk(conn); got != "web hello" {
		t.Errorf("X22 a connection of mode ipvs in mode nftables, after a restart: %q", got)
	}
	if got := say("10.96.0.80:80"); got != "web hello" {
		t.Errorf("X22 after a restart: %q", got)
	}
	p.expect(0, "clean", "vip", "cleanup", "--mode", "ipvs")
	if servers := sh(t, "ipvsadm", "-Sn"); servers != "" {
		t.Errorf("leftovers of ipvs: %s", servers)
	}
	if tables := sh(t, "nft", "list", "ruleset"); strings.Contains(strings.ToLower(tables), "signpost-ipvs") {
		t.Errorf("leftovers of ipvs: %s", tables)
	}
	if addresses := sh(t, "ip", "addr"); strings.Contains(addresses, "signpost-ipvs") || strings.Contains(addresses, "10.96.") {
		t.Errorf("leftovers of ipvs: %s", addresses)
	}
	if routes := sh(t, "ip", "route", "show", "table", "all", "proto", "84"); routes != "" {
		t.Errorf("leftovers of ipvs: %s", routes)
	}
	if rules := sh(t, "ip", "rule"); strings.Contains(rules, "84:") {
		t.Errorf("leftovers of ipvs: %s", rules)
	}
	if got := say("10.96.0.80:80"); got != "web hello" {
		t.Errorf("X22 after the cleanup of mode ipvs: %q", got)
	}
}
