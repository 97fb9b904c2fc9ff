package rivals

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

// Rival is a sign of another proxy.
type Rival struct {
	Sign   string // what was found
	Remedy string // what to do about it
}

// proxyMode is where kube-proxy tells its mode.
const proxyMode = "http://127.0.0.1:10249/proxyMode"

const (
	timeout = time.Second
	stop    = "stop kube-proxy on this node, or run signpost without vip"
	remove  = `if it no longer runs, remove what it left: "kube-proxy --cleanup"`
)

// Find lists signs of other proxies. What can't be looked at, for want of
// privileges or of a kernel feature, shows nothing.
func Find(ctx context.Context) []Rival {
	var list []Rival
	if mode := askProxyMode(ctx, proxyMode); mode != "" {
		list = append(list, Rival{fmt.Sprintf("kube-proxy runs here in mode %s", mode), stop})
	}
	return slices.Concat(list, rules(), devices())
}

// askProxyMode returns the mode of the kube-proxy that answers; empty: none does.
func askProxyMode(ctx context.Context, url string) string {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return ""
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 32))
	mode := strings.TrimSpace(string(text))
	known := []string{"iptables", "ipvs", "nftables", "userspace", "kernelspace"}
	if err != nil || response.StatusCode != http.StatusOK || !slices.Contains(known, mode) {
		return ""
	}
	return mode
}

// rules lists tables and chains of kube-proxy. The rules of iptables in its
// nf_tables form are seen here too.
func rules() []Rival {
	conn, err := nftables.New()
	if err != nil {
		return nil
	}
	chains, err := conn.ListChains()
	if err != nil {
		return nil
	}
	var list []Rival
	for _, c := range chains {
		var sign string
		switch {
		case c.Table.Name == "kube-proxy":
			sign = fmt.Sprintf("rules of kube-proxy: table %q of nftables", c.Table.Name)
		case c.Name == "KUBE-SERVICES":
			sign = fmt.Sprintf("rules of kube-proxy: chain %s in table %q of iptables", c.Name, c.Table.Name)
		default:
			continue
		}
		if r := (Rival{sign, remove}); !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// devices lists the devices on which other proxies keep their addresses.
func devices() []Rival {
	var list []Rival
	for name, owner := range map[string]string{"kube-ipvs0": "kube-proxy", "kube-dummy-if": "kube-router"} {
		if _, err := netlink.LinkByName(name); err == nil {
			list = append(list, Rival{
				Sign:   fmt.Sprintf("virtual addresses of %s: device %s", owner, name),
				Remedy: fmt.Sprintf(`if it no longer runs, remove what it left: "ip link delete %s"`, name),
			})
		}
	}
	slices.SortFunc(list, func(a, b Rival) int { return strings.Compare(a.Sign, b.Sign) })
	return list
}
