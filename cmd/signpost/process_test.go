package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is "signpost serve" as a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	dir    string
	dns    string // address
	lines  chan string
	reader sync.WaitGroup
}

const serveCorefile = `.:0 {
    bind 127.0.0.1
    manifests manifests {
        service_cidr 10.96.0.0/16
        state state.yaml
    }
    kubernetes cluster.local
    admin unix://admin.sock
}
`

const twoServices = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{name: http, port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: docs, namespace: default}
spec: {type: ExternalName, externalName: www.example.com}
`

// newFolder makes a folder with a Corefile and manifests.
func newFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "Corefile"), serveCorefile)
	writeFile(t, filepath.Join(dir, "manifests", "web.yaml"), twoServices)
	return dir
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// program is this test binary as the program.
func program(ctx context.Context, t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), "SIGNPOST_TEST_AS_PROGRAM=1")
	cmd.Dir = dir
	return cmd
}

var readyLine = regexp.MustCompile(`msg=ready dns=\[(\S+)\]`)

// startProcess serves the folder and waits until it is ready.
func startProcess(t *testing.T, dir string) *process {
	t.Helper()
	p := start(t, dir)
	p.waitReady()
	return p
}

func (p *process) waitReady() {
	p.t.Helper()
	p.dns = readyLine.FindStringSubmatch(p.until("msg=ready"))[1]
}

// start serves the folder.
func start(t *testing.T, dir string) *process {
	t.Helper()
	return launch(t, dir, program(context.Background(), t, dir, "serve"))
}

// launch starts a command that becomes the program.
func launch(t *testing.T, dir string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, dir: dir, cmd: cmd, lines: make(chan string, 1000)}
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.reader.Go(func() {
		for scanner := bufio.NewScanner(pipe); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
		close(p.lines)
	})
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); p.reader.Wait(); _ = p.cmd.Wait() })
	return p
}

// until reads the log up to a line with the text.
func (p *process) until(text string) string {
	p.t.Helper()
	deadline := time.After(30 * time.Second)
	var seen []string
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the process ended before %q:\n%s", text, strings.Join(seen, "\n"))
			}
			seen = append(seen, line)
			if strings.Contains(line, text) {
				return line
			}
		case <-deadline:
			p.t.Fatalf("no line with %q:\n%s", text, strings.Join(seen, "\n"))
		}
	}
}

// end sends a signal and returns the exit status.
func (p *process) end(signal os.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	p.reader.Wait()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// signpost runs a command against the process.
func (p *process) signpost(args ...string) string {
	p.t.Helper()
	out, err := program(p.t.Context(), p.t, p.dir, args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("signpost %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// resolve asks the process through the system's resolver library.
func (p *process) resolve(name string) []string {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, p.dns)
	}
	resolver := &net.Resolver{PreferGo: true, Dial: dial}
	addrs, err := resolver.LookupHost(p.t.Context(), name)
	if err != nil {
		p.t.Errorf("resolving %s: %v", name, err)
	}
	return addrs
}

func TestSignalsEndCleanly(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := startProcess(t, newFolder(t))
		if status := p.end(signal); status != 0 {
			t.Errorf("%v: exit status %d, want 0", signal, status)
		}
		if _, err := os.Stat(filepath.Join(p.dir, "admin.sock")); !os.IsNotExist(err) {
			t.Errorf("%v: the admin socket is left: %v", signal, err)
		}
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	p := startProcess(t, newFolder(t))
	clusterIP := p.resolve("web.default.svc.cluster.local.")
	table := p.signpost("get", "svc")
	shape := regexp.MustCompile(`^NAME   TYPE           CLUSTER-IP +EXTERNAL-IP       PORT\(S\)        AGE
docs   ExternalName   <none> +www.example.com   <none>         <unknown>
web    NodePort       ` + regexp.QuoteMeta(strings.Join(clusterIP, ",")) + ` +<none>            80:3\d{4}/TCP   <unknown>
$`)
	if !shape.MatchString(table) {
		t.Errorf("get svc:\n%s", table)
	}
	for args, want := range map[string]string{
		"get svc -n other":         "No resources found in other namespace.\n",
		"get pods -A":              "No resources found\n",
		"get ep web":               "NAME   ENDPOINTS   AGE\nweb    <none>      <unknown>\n",
		"get services/web -o yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n",
		"get rr docs":              "NAME                              TTL   TYPE    DATA\ndocs.default.svc.cluster.local.   5     CNAME   www.example.com.\n",
		"get vs -A":                "No resources found\n",
	} {
		if got := p.signpost(strings.Fields(args)...); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	missing := program(t.Context(), t, p.dir, "get", "svc", "nope")
	out, err := missing.CombinedOutput()
	if missing.ProcessState.ExitCode() != 1 || string(out) != "Error from server (NotFound): services \"nope\" not found\n" {
		t.Errorf("missing: %v %s", err, out)
	}
}

func TestGetWatch(t *testing.T) {
	t.Parallel()
	p := startProcess(t, newFolder(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := program(ctx, t, p.dir, "get", "svc", "-w")
	watch.Cancel = func() error { return watch.Process.Signal(os.Interrupt) }
	pipe, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for _, want := range []string{"NAME ", "docs ", "web "} {
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) {
			t.Fatalf("line %q, want one of %s", lines.Text(), want)
		}
	}
	writeFile(t, filepath.Join(p.dir, "manifests", "more.yaml"), strings.ReplaceAll(twoServices[:strings.Index(twoServices, "---")], "web", "more"))
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "more   NodePort       10.96.") {
		t.Errorf("line %q, want the new service below the others", lines.Text())
	}
	cancel()
	_, _ = io.Copy(io.Discard, pipe)
	if err := watch.Wait(); watch.ProcessState.ExitCode() != 0 {
		t.Errorf("at its end: %v", err)
	}
}

// TestKilled: kill -9 at any moment, then the same addresses again.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := newFolder(t)
	p := startProcess(t, dir)
	before, clusterIP := p.signpost("get", "svc", "web"), p.resolve("web.default.svc.cluster.local.")
	p.end(syscall.SIGKILL)
	again := startProcess(t, dir)
	if after := again.signpost("get", "svc", "web"); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if got := again.resolve("web.default.svc.cluster.local."); len(got) != 1 || got[0] != clusterIP[0] {
		t.Errorf("resolved %q, before %q", got, clusterIP)
	}
}

func TestReloadBySignal(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGUSR1, syscall.SIGHUP} {
		p := startProcess(t, newFolder(t))
		writeFile(t, filepath.Join(p.dir, "Corefile"), strings.Replace(serveCorefile, "cluster.local", "other.zone", 1))
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		p.until("msg=reloaded")
		if got := p.resolve("web.default.svc.other.zone."); len(got) != 1 {
			t.Errorf("%v: in the new zone: %q", signal, got)
		}
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir := newFolder(t)
	_, port, _ := net.SplitHostPort(taken.LocalAddr().String())
	writeFile(t, filepath.Join(dir, "Corefile"), strings.Replace(serveCorefile, ".:0", ".", 1))
	cmd := program(t.Context(), t, dir, "serve", "-dns.port", port)
	out, _ := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := lines[len(lines)-1]
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(last, "address already in use: another program has the port") || !strings.Contains(last, "-dns.port") {
		t.Errorf("status %d:\n%s", cmd.ProcessState.ExitCode(), out)
	}
}
