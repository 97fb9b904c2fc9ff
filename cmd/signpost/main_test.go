package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/dataplane"
)

// TestMain lets the test binary be the program itself: the end-to-end tests
// start it as a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("SIGNPOST_TEST_AS_PROGRAM") != "" {
		main()
	}
	os.Exit(m.Run())
}

// command runs one command line in this process.
func command(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	status = run(t.Context(), args, streams{out: &stdout, err: &stderr})
	return status, stdout.String(), stderr.String()
}

func TestUsage(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Chdir(t.TempDir())
	tests := []struct {
		name   string
		args   string
		status int
		errs   string
	}{
		{"unknown command", "frobnicate", 2, `unknown command "frobnicate" for "signpost": must be one of check, completion, get, serve, version, vip`},
		{"unknown sub-command", "vip frobnicate", 2, `unknown command "frobnicate" for "signpost vip": must be one of cleanup, diff, plan`},
		{"unknown flag", "serve --frobnicate", 2, `unknown flag: --frobnicate (see signpost serve -h)`},
		{"bad flag", "serve -dns.port 70000", 2, `invalid argument "70000" for "--dns.port" flag: strconv.ParseUint: parsing "70000": value out of range (see signpost serve -h)`},
		{"extra argument", "check Corefile", 2, `signpost check: unexpected argument "Corefile"`},
		{"no resource", "get", 2, `get: must have a resource and at most one name; the resources are services (svc), endpoints (ep), pods (po), records (rr), virtualservers (vs)`},
		{"unknown resource", "get secrets", 2, `get: unknown resource "secrets": must be one of services (svc), endpoints (ep), pods (po), records (rr), virtualservers (vs)`},
		{"unknown format", "get svc -o name", 2, `output format "name": must be one of wide, yaml, json`},
		{"bad admin address", "get svc --admin tcp://x", 2, `parsing admin address "tcp://x": must be unix://PATH`},
		{"no server", "get svc --admin unix://nobody", 1, `asking the server at "nobody": dial unix nobody: connect: no such file or directory (is signpost serve running?)`},
		{"missing Corefile", "serve -conf nope", 2, `nope:1: reading the Corefile: open nope: no such file or directory`},
		{"unknown mode", "vip cleanup --mode fast", 2, `mode fast: this build has no such backend: must be one of auto, `},
		{"Windows' mode", "vip cleanup --mode=kernelspace", 2, `mode kernelspace: needs Windows, this machine runs `},
	}
	for _, tt := range tests {
		status, out, errs := command(t, strings.Fields(tt.args)...)
		if status != tt.status || out != "" || !strings.HasPrefix(errs, tt.errs) {
			t.Errorf("%s: status %d, output %q, errors %q", tt.name, status, out, errs)
		}
	}
}

// TestHelp: every command shows an example.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"", "serve", "check", "get", "vip", "vip plan", "vip cleanup", "version", "completion"} {
		status, out, _ := command(t, append(strings.Fields(args), "-h")...)
		if status != 0 || !strings.Contains(out, "Examples:\n  s") {
			t.Errorf("%q -h: status %d, no example: %s", args, status, out)
		}
	}
	if status, out, _ := command(t, "completion", "bash"); status != 0 || !strings.Contains(out, "signpost") {
		t.Errorf("completion: status %d", status)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	status, out, _ := command(t, "version")
	want := regexp.MustCompile(`^signpost \S+\ngo1\.\S+ \S+/\S+\nmodes:\n(  [a-z]+ +(yes|no: .+)\n)*  userspace +yes\n`)
	if status != 0 || !want.MatchString(out) {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good/web.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports: [{port: 80}]\n")
	write("bad/web.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports:\n  - port: 70000\n")
	write("Corefile", ".:53 {\n manifests good\n kubernetes cluster.local\n}\n")
	write("both", ".:53 {\n manifests bad\n kubernetes cluster.local {\n  ttl 99999\n }\n frobnicate\n}\n")
	write("api", ".:53 {\n kubernetes cluster.local\n vip {\n  mode kernelspace\n }\n}\nexample.org {\n bind nowhere0\n}\n")
	write("folder", ".:53 {\n manifests nowhere\n kubernetes cluster.local\n}\n")

	tests := []struct {
		name, args string
		status     int
		out, errs  string
	}{
		{"no problems", "check", 0, "no problems\n", ""},
		{"of the Corefile and of the manifests", "check -conf both", 2, "", `both:4: kubernetes: ttl 99999: must be between 0 and 3600
both:6: frobnicate: unknown directive: must be one of import, ` + strings.Join(corefile.Directives(), ", ") + `
bad/web.yaml:6: Service "default/web": spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive
`},
		{"of what only the machine can tell", "check --conf=api", 2, "", `api:3: vip: mode kernelspace: needs Windows, this machine runs linux: must be one of auto, ` + strings.Join(dataplane.Modes(), ", ") + `
api:7: dns://example.org.:53: bind: "nowhere0": must be an IP address or an interface of this machine
`},
		{"of the folder", "check -conf folder", 2, "", `folder:2: manifests: opening manifests folder "nowhere": no such file or directory
`},
	}
	for _, tt := range tests {
		status, out, errs := command(t, strings.Fields(tt.args)...)
		if status != tt.status || out != tt.out || errs != tt.errs {
			t.Errorf("%s: status %d, output %q, errors\n%s", tt.name, status, out, errs)
		}
	}
}

func TestBuiltIn(t *testing.T) {
	t.Chdir(t.TempDir())
	if status, _, errs := command(t, "check"); status != 0 || !strings.Contains(errs, "using the built-in one") {
		t.Errorf("without a folder: status %d: %s", status, errs)
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" { // in a pod it would begin to serve
		status, _, errs := command(t, "serve")
		if status != 2 || !strings.Contains(errs, "built-in Corefile:7: kubernetes: finding the API server: this is no pod of a cluster") {
			t.Errorf("without a folder and a cluster: status %d: %s", status, errs)
		}
	}
	if err := os.Mkdir("manifests", 0o755); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := command(t, "check"); status != 0 || out != "no problems\n" {
		t.Errorf("with a folder: status %d, output %q, errors %q", status, out, errs)
	}
}

func TestPlan(t *testing.T) {
	t.Chdir("testdata")
	const dump = `0.0.0.0:30080/TCP default/web http NodePort cluster=[10.244.0.1:8080*] pod:cluster+snat node:cluster+snat outside:cluster+snat
10.96.0.80:80/TCP default/web http ClusterIP cluster=[10.244.0.1:8080*] pod:cluster node:cluster+snat outside:cluster+snat
10.96.0.81:53/UDP default/empty - ClusterIP pod:reject node:reject outside:reject
`
	const table = `NAMESPACE   FRONTEND            SERVICE    KIND        ENDPOINTS         APPLIED   AGE         POD                   NODE                  OUTSIDE               AFFINITY   SOURCE-RANGES   LOSERS
default     10.96.0.81:53/UDP   empty      ClusterIP   <none>            <none>    <unknown>   cluster/reject        cluster+snat/reject   cluster+snat/reject   <none>     <none>          <none>
default     0.0.0.0:30080/TCP   web:http   NodePort    10.244.0.1:8080   <none>    <unknown>   cluster+snat/reject   cluster+snat/reject   cluster+snat/reject   <none>     <none>          <none>
default     10.96.0.80:80/TCP   web:http   ClusterIP   10.244.0.1:8080   <none>    <unknown>   cluster/reject        cluster+snat/reject   cluster+snat/reject   <none>     <none>          <none>
`
	for args, want := range map[string]string{"vip plan": dump, "vip plan --mode userspace": dump, "vip plan -o wide": table} {
		if status, out, errs := command(t, strings.Fields(args)...); status != 0 || out != want || errs != "" {
			t.Errorf("%s: status %d, errors %q, output\n%s", args, status, errs, out)
		}
	}
	if status, out, _ := command(t, "vip", "plan", "-o", "yaml"); status != 0 || !strings.Contains(out, "frontend: 10.96.0.80:80/TCP\n") {
		t.Errorf("yaml: status %d\n%s", status, out)
	}
	if status, _, errs := command(t, "vip", "plan", "--mode", "fast"); status != 2 || !strings.HasPrefix(errs, "mode fast: this build has no such backend") {
		t.Errorf("unknown mode: status %d: %s", status, errs)
	}
}
