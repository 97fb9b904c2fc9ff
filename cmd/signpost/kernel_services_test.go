package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ask sends a request to an HTTP endpoint in the test's namespace, which a
// client with goroutines of its own could not, and returns status and body.
func ask(address, path string) (status int, body string, header http.Header, err error) {
	conn, err := net.DialTimeout("tcp", address, 3*time.Second)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = conn.Close() }()
	if _, err = fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", path); err != nil {
		return 0, "", nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), response.Header, err
}

// answers waits until an endpoint answers so.
func answers(t *testing.T, address, path string, status int, texts ...string) http.Header {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(10 * time.Second); ; {
		code, body, header, err := ask(address, path)
		ok := err == nil && code == status
		for _, text := range texts {
			ok = ok && strings.Contains(body, text)
		}
		if ok {
			return header
		}
		select {
		case <-deadline:
			t.Fatalf("%s%s: %d %v, want %d with %q\n%s", address, path, code, err, status, texts, body)
		case <-ticker.C:
		}
	}
}

// rewrite changes a file of the folder, at once.
func (p *process) rewrite(name, old, replacement string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(old)) {
		p.t.Fatalf("%s has no %q", name, old)
	}
	writeFile(p.t, path+".new", strings.Replace(string(text), old, replacement, 1))
	if err := os.Rename(path+".new", path); err != nil {
		p.t.Fatal(err)
	}
}

// TestKernelServices are the services beside the backend, as seen from outside.
func TestKernelServices(t *testing.T) {
	dir := newKernelFolder(t)
	sh(t, "nft", "add table ip kube-proxy; add chain ip kube-proxy services")
	p := start(t, dir)
	p.until(`msg="another proxy works on this machine`) // X15
	p.waitReady()

	const checks = "192.0.2.1:32100"
	header := answers(t, checks, "/", http.StatusOK, `"localEndpoints":1`) // F-09
	if got := header.Get("X-Load-Balancing-Endpoint-Weight"); got != "1" {
		t.Errorf("F-09 weight %q, want 1", got)
	}
	answers(t, "127.0.0.1:10256", "/healthz", http.StatusOK, `"lastUpdated"`, `"currentTime"`, `"nodeEligible":true`) // L-04
	answers(t, "127.0.0.1:10256", "/livez", http.StatusOK)
	answers(t, "127.0.0.1:9153", "/proxyMode", http.StatusOK, "nftables") // L-05
	answers(t, "127.0.0.1:9153", "/configz", http.StatusOK, `"nodeName":"n1"`)

	p.rewrite("manifests/web.yaml", "metadata: {name: n1}", "metadata: {name: n1}\nspec: {taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]}")
	answers(t, "127.0.0.1:10256", "/healthz", http.StatusServiceUnavailable, `"nodeEligible":false`)
	answers(t, "127.0.0.1:10256", "/livez", http.StatusOK)

	p.rewrite("manifests/web.yaml", "nodeName: n1", "nodeName: n2")
	answers(t, checks, "/", http.StatusServiceUnavailable, `"localEndpoints":0`, `"serviceProxyHealthy":true`) // B32
	answers(t, "127.0.0.1:9153", "/metrics", http.StatusOK,                                                    // L-06
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy="external"} 1`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy="internal"} 0`,
		`kubeproxy_proxy_healthz_total{code="503"}`, `kubeproxy_proxy_livez_total{code="200"}`,
		"kubeproxy_sync_proxy_rules_duration_seconds_bucket{le=\"0.001\"}", "kubeproxy_sync_full_proxy_rules_duration_seconds_count",
		"kubeproxy_sync_partial_proxy_rules_duration_seconds_count", "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
		"kubeproxy_sync_proxy_rules_endpoint_changes_total", "kubeproxy_sync_proxy_rules_service_changes_pending 0",
		"kubeproxy_conntrack_reconciler_deleted_entries_total 0", `signpost_vip_mode{mode="nftables"} 1`,
		"signpost_vip_healthcheck_ports 1", "signpost_vip_healthy 1")
}

// TestSecondSignpost is L-08: the second one in a namespace ends at once and
// says why; when the first one has ended, however, it can start.
func TestSecondSignpost(t *testing.T) {
	p := startProcess(t, newKernelFolder(t))
	other := newFolder(t)
	for _, name := range []string{"Corefile", "manifests/web.yaml"} {
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(other, name), string(text))
	}
	out, err := program(t.Context(), t, other, "serve").CombinedOutput()
	if want := fmt.Sprintf("Corefile:8: vip: another signpost runs the dataplane here, as process %d", p.cmd.Process.Pid); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("the second: %v, %q in\n%s", err, want, out)
	}
	if got := say("10.96.0.80:80"); got != "web hello" {
		t.Errorf("the first: %q", got)
	}
	// One that proxies by itself can be there too, and leaves the first one's rules alone.
	third := newFolder(t)
	writeFile(t, filepath.Join(third, "Corefile"), strings.Replace(serveCorefile, "kubernetes", "vip {\n mode userspace\n healthz 127.0.0.1:0\n}\nkubernetes", 1))
	side := start(t, third)
	side.until(`msg="another signpost runs a dataplane here`)
	side.waitReady()
	side.end(syscall.SIGTERM)
	if got := say("10.96.0.80:80"); got != "web hello" {
		t.Errorf("the first beside one in mode userspace: %q", got)
	}
	p.end(syscall.SIGKILL)
	startProcess(t, other)
}

// TestKubeProxyPort is L-08: something else has the port of /healthz.
func TestKubeProxyPort(t *testing.T) {
	dir := newKernelFolder(t)
	taken, err := net.Listen("tcp", "127.0.0.1:10256")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	out, err := program(t.Context(), t, dir, "serve").CombinedOutput()
	if want := "another program has the port, perhaps a kube-proxy or another signpost"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, want %q in\n%s", err, want, out)
	}
}

// TestLeftovers is L-02, and T-11 as seen by the next mode: after a change of
// mode between two runs, what the first left goes with the second's first sync.
func TestLeftovers(t *testing.T) {
	dir := newKernelFolder(t)
	p := startProcess(t, dir)
	p.end(syscall.SIGTERM)
	if got := say("10.96.0.80:80"); got != "web hello" {
		t.Errorf("L-01 after SIGTERM: %q", got)
	}
	p.rewrite("Corefile", "mode nftables", "mode userspace")
	p = startProcess(t, dir)
	gone(t, "the table", func() bool { return sh(t, "nft", "list", "tables") == "" })
	if got := say("10.96.0.80:80"); got != "web hello" {
		t.Errorf("in mode userspace: %q", got)
	}
	p.end(syscall.SIGTERM)
	p.rewrite("Corefile", "mode userspace", "mode nftables")
	startProcess(t, dir)
	gone(t, "the route", func() bool { return !strings.Contains(sh(t, "ip", "route", "show", "table", "local"), "10.96.") })
	if got := say("10.96.0.80:80"); got != "web hello" {
		t.Errorf("in mode nftables again: %q", got)
	}
}

func gone(t *testing.T, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(10 * time.Second); !is(); {
		select {
		case <-deadline:
			t.Fatalf("%s is still there", what)
		case <-ticker.C:
		}
	}
}

// modeChanges are all that this machine's kernel can go through.
var modeChanges = []string{"userspace", "iptables", "nftables", "iptables", "userspace", "nftables"}

// TestModeChange is X22: a reload changes the mode, again and again, while a
// client makes connections all the time. None of them fails.
func TestModeChange(t *testing.T) {
	p := startProcess(t, newKernelFolder(t))
	p.changeModes("nftables", modeChanges)
	p.expect(0, "", "vip", "diff")
	if routes := sh(t, "ip", "route", "show", "table", "local"); strings.Contains(routes, "10.96.") {
		t.Errorf("leftovers of userspace: %s", routes)
	}
}

// cut is how many of this node's connections a change of mode may cut: the one
// that is open at the moment when IPVS goes, because userspace can't be beside it.
func cut(mode, next string) int {
	if mode == "ipvs" && next == "userspace" {
		return 1
	}
	return 0
}

// changeModes goes from one mode through others, while a client connects.
func (p *process) changeModes(mode string, modes []string) {
	t := p.t
	t.Helper()
	const address = "10.96.0.80:80"
	for _, next := range modes {
		p.rewrite("Corefile", "mode "+mode, "mode "+next)
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		var bad []string
		good := p.untilLine(`msg="dataplane replaced" part=vip before=`+mode, func() {
			if got := say(address); got != "web hello" {
				bad = append(bad, got)
			}
		})
		if len(bad) > cut(mode, next) {
			t.Errorf("X22 from %s to %s: %q", mode, next, bad)
		}
		for range 200 {
			if got := say(address); got != "web hello" {
				t.Errorf("X22 after the change to %s: %q", next, got)
			}
		}
		if good < 3 {
			t.Logf("only %d connections during the change to %s", good, next)
		}
		mode = next
	}
}

// untilLine calls do until the log has a line with the text, and returns how often.
func (p *process) untilLine(text string, do func()) (count int) {
	p.t.Helper()
	var seen []string
	const patience = time.Minute // for machines on which a program takes long to start
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the process ended before %q", text)
			}
			seen = append(seen, line)
			if strings.Contains(line, text) {
				return count
			}
		default:
			do()
			count++
			<-time.After(5 * time.Millisecond) // the program has to get on, too
		}
	}
	p.t.Fatalf("no line with %q, in the time of %d connections:\n%s", text, count, strings.Join(seen, "\n"))
	return count
}
