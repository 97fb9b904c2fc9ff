package lab

import (
	"context"
	_ "embed" // the manifests
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

//go:embed cluster.yaml.tmpl
var clusterTemplate string

// ClusterCIDRs are what the pods' addresses are in, for a detector (P-20).
var ClusterCIDRs = []string{"172.16.0.0/16", "fd00:172::/32"}

// Manifests writes manifests for the nodes and pods of a topology like
// [Default]'s, and some Services, into a folder.
func (t Topology) Manifests(dir string) error {
	parsed, err := template.New("cluster").Parse(clusterTemplate)
	if err != nil {
		return fmt.Errorf("writing manifests: %w", err)
	}
	var text strings.Builder
	data := struct {
		Topology
		V6 bool
	}{t, t.has6()}
	if err := parsed.Execute(&text, data); err != nil {
		return fmt.Errorf("writing manifests: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing manifests: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("writing manifests: %w", err)
	}
	return nil
}

// Corefile returns a configuration for signpost on a node: a folder of
// manifests, and the dataplane in a mode. Nothing listens on the unspecified
// address, where it would be in the way of userspace mode. The answer to "ready"
// is on 127.0.0.1:8181, the admin socket is NODE.sock in the lab's folder.
func (l *Lab) Corefile(node, mode, manifests string) string {
	ranges := "10.96.0.0/12"
	if l.Topology.has6() {
		ranges += " fd00:96::/112"
	}
	return fmt.Sprintf(`.:53 {
    bind %[7]s
    errors
    health 127.0.0.1:8080
    ready 127.0.0.1:8181
    manifests %[3]s {
        service_cidr %[4]s
        load_balancer_pool 203.0.113.0/24
        state %[5]s/%[1]s.allocations.yaml
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods verified
        ttl 5
    }
    vip {
        mode %[2]s
        node_name %[1]s
        cluster_cidr %[6]s
    }
    prometheus :9153
    loadbalance
    admin unix://%[5]s/%[1]s.sock
}
`, node, mode, manifests, ranges, l.Dir, strings.Join(ClusterCIDRs, " "), words(l.Topology.node(node).Addrs))
}

func words(addrs []netip.Addr) string {
	list := make([]string, len(addrs))
	for i, a := range addrs {
		list[i] = a.String()
	}
	return strings.Join(list, " ")
}

// HTTP returns a client whose requests come from a host. URLs need numeric
// addresses.
func (l *Lab) HTTP(host string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return l.Dial(ctx, host, network, address)
		},
	}}
}

// Await asks a URL from a host until the answer is 200, as long as the process
// that is to answer lives.
func (l *Lab) Await(ctx context.Context, host, url string, p *Process) error {
	const pause = 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	client := l.HTTP(host)
	for {
		status, err := get(ctx, client, url)
		if err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s on %q: %w: status %d: %s", url, host, errors.Join(context.Cause(ctx), err), status, trim(p.Output()))
		case <-p.Ended():
			return fmt.Errorf("waiting for %s on %q: the process has ended: %s", url, host, trim(p.Output()))
		case <-tick.C:
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}
