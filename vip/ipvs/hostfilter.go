package ipvs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/coreos/go-iptables/iptables"
	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Packets to IPVS pass the host's own filter at the input hook, and replies of
// endpoints at the forward hook. A host that drops there by default would drop
// them (B22, I-13), and no table of ours can take that back. So where the host
// has such a filter of iptables, one chain in it lets these packets pass:
//
//	-A INPUT   -j SIGNPOST-IPVS
//	-A FORWARD -j SIGNPOST-IPVS
//	-A SIGNPOST-IPVS -m mark --mark 0x2000/0x2000 -j CONNMARK --set-xmark 0x2000/0x2000
//	-A SIGNPOST-IPVS -m mark --mark 0x2000/0x2000 -j ACCEPT
//	-A SIGNPOST-IPVS -m connmark --mark 0x2000/0x2000 -j ACCEPT
//
// The mark is on the packets that begin a connection, so the connection's mark
// tells the later ones, of both directions. Where the host has no filter, none
// is made, and no connection is marked.
const (
	filterTable = "filter"
	passChain   = "SIGNPOST-IPVS"
)

// passHooks are the chains from which packets are let through.
var passHooks = []string{"INPUT", "FORWARD"}

// passRules are the chain's rules, in iptables's own words.
func passRules() []string {
	mark := fmt.Sprintf("%#x/%#x", oursBit, oursBit)
	return []string{
		"-m mark --mark " + mark + " -j CONNMARK --set-xmark " + mark,
		"-m mark --mark " + mark + " -j ACCEPT",
		"-m connmark --mark " + mark + " -j ACCEPT",
	}
}

// passage is our part of the host's filter.
type passage interface {
	ensure() error
	intact() bool
	remove() error
	close()
}

// hostFilter is the filter of the network namespace in which it was opened;
// ensure and remove run commands in the calling thread's.
type hostFilter struct {
	conn   *nft.Conn
	failed map[nft.TableFamily]bool // and it was told: nothing there is drift
}

func openHostFilter() (*hostFilter, error) {
	conn, err := nft.New(nft.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("opening a socket for the host's filter: %w", err)
	}
	return &hostFilter{conn: conn, failed: map[nft.TableFamily]bool{}}, nil
}

func (h *hostFilter) close() { _ = h.conn.CloseLasting() }

// xtables is one family of addresses as iptables has it.
type xtables struct {
	family   nft.TableFamily
	protocol iptables.Protocol
	command  string
	names    string // the file that lists legacy tables; reading it makes none
}

var xtablesFamilies = []xtables{
	{nft.TableFamilyIPv4, iptables.ProtocolIPv4, "iptables", "/proc/thread-self/net/ip_tables_names"},
	{nft.TableFamilyIPv6, iptables.ProtocolIPv6, "ip6tables", "/proc/thread-self/net/ip6_tables_names"},
}

// ensure makes the chain and the jumps where the host filters; in both kinds
// of iptables, as a packet passes both.
func (h *hostFilter) ensure() error {
	var errs []error
	for _, x := range xtablesFamilies {
		err := h.each(x, func(ipt *iptables.IPTables, hooks []string) error { return ensurePassage(ipt, hooks) })
		if h.failed[x.family] = err != nil; err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// remove takes the chain and the jumps away.
func (h *hostFilter) remove() error {
	var errs []error
	for _, x := range xtablesFamilies {
		errs = append(errs, h.each(x, removePassage))
	}
	return errors.Join(errs...)
}

// each calls f for both kinds of iptables whose filter the host uses, with the
// hooks at which it does.
func (h *hostFilter) each(x xtables, f func(ipt *iptables.IPTables, hooks []string) error) error {
	native, err := h.hooks(x.family)
	if err != nil {
		return err
	}
	var errs []error
	for _, kind := range []struct {
		suffix string
		hooks  []string
	}{{"-nft", native}, {"-legacy", legacyHooks(x)}} {
		if len(kind.hooks) == 0 {
			continue
		}
		path, err := findXtables(x.command, kind.suffix)
		if err == nil {
			var ipt *iptables.IPTables
			if ipt, err = iptables.New(iptables.IPFamily(x.protocol), iptables.Path(path), iptables.Timeout(5)); err == nil {
				err = f(ipt, kind.hooks)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("letting packets to IPVS pass the filter of %s%s: %w", x.command, kind.suffix, err))
		}
	}
	return errors.Join(errs...)
}

// findXtables finds a kind's command: the plain one where none bears the name
// of a kind.
func findXtables(command, suffix string) (string, error) {
	path, err := exec.LookPath(command + suffix)
	if err == nil {
		return path, nil
	}
	for _, other := range []string{"-nft", "-legacy"} {
		if _, there := exec.LookPath(command + other); there == nil {
			return "", err //nolint:wrapcheck // says what was looked for
		}
	}
	return exec.LookPath(command) //nolint:wrapcheck // as above
}

// hooks lists the chains of the host's filter that iptables keeps in nf_tables.
// A table that was made by other means has other chains, and is left alone.
func (h *hostFilter) hooks(family nft.TableFamily) ([]string, error) {
	chains, err := h.conn.ListChainsOfTableFamily(family)
	if err != nil {
		return nil, fmt.Errorf("listing the host's chains: %w", err)
	}
	var hooks []string
	for _, c := range chains {
		if c.Table.Name == filterTable && c.Hooknum != nil && slices.Contains(passHooks, c.Name) {
			hooks = append(hooks, c.Name)
		}
	}
	return hooks, nil
}

func legacyHooks(x xtables) []string {
	names, err := os.ReadFile(x.names)
	if err != nil || !slices.Contains(strings.Fields(string(names)), filterTable) {
		return nil
	}
	return passHooks
}

func ensurePassage(ipt *iptables.IPTables, hooks []string) error {
	if !passes(ipt) {
		if err := ipt.ClearChain(filterTable, passChain); err != nil { // makes it, too
			return fmt.Errorf("making chain %q: %w", passChain, err)
		}
		for _, rule := range passRules() {
			if err := ipt.Append(filterTable, passChain, strings.Fields(rule)...); err != nil {
				return fmt.Errorf("filling chain %q: %w", passChain, err)
			}
		}
	}
	for _, hook := range hooks {
		if err := ipt.InsertUnique(filterTable, hook, 1, "-j", passChain); err != nil {
			return fmt.Errorf("adding a jump to chain %q: %w", hook, err)
		}
	}
	return nil
}

// passes reports whether the chain is there with its rules.
func passes(ipt *iptables.IPTables) bool {
	lines, err := ipt.List(filterTable, passChain)
	want := []string{"-N " + passChain}
	for _, rule := range passRules() {
		want = append(want, "-A "+passChain+" "+rule)
	}
	return err == nil && slices.Equal(lines, want)
}

func removePassage(ipt *iptables.IPTables, hooks []string) error {
	there, err := ipt.ChainExists(filterTable, passChain)
	if err != nil || !there {
		return err //nolint:wrapcheck // each does
	}
	for _, hook := range hooks {
		if err := ipt.DeleteIfExists(filterTable, hook, "-j", passChain); err != nil {
			return fmt.Errorf("removing the jump from chain %q: %w", hook, err)
		}
	}
	if err := ipt.ClearAndDeleteChain(filterTable, passChain); err != nil {
		return fmt.Errorf("removing chain %q: %w", passChain, err)
	}
	return nil
}

// intact reports whether each chain at which the host filters leads to ours.
// It asks nf_tables alone: what becomes of legacy tables, the next look tells.
func (h *hostFilter) intact() bool {
	for _, x := range xtablesFamilies {
		if h.failed[x.family] {
			continue
		}
		hooks, err := h.hooks(x.family)
		if err != nil {
			continue // the next look tells
		}
		table := &nft.Table{Name: filterTable, Family: x.family}
		for _, hook := range hooks {
			rules, err := h.conn.GetRules(table, &nft.Chain{Name: hook, Table: table})
			if err == nil && !slices.ContainsFunc(rules, leadsToPassage) {
				return false
			}
		}
	}
	return true
}

func leadsToPassage(r *nft.Rule) bool {
	return slices.ContainsFunc(r.Exprs, func(e expr.Any) bool {
		v, ok := e.(*expr.Verdict)
		return ok && v.Chain == passChain
	})
}
