package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signpost/integration/lab"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"help"}, {"down", "now"}, {"exec"}, {"exec", "pod-a"}, {"exec", "pod-a", "--"}, {"up", "now"}, {"up", "-nope"}, {"-nope", "up"},
	} {
		var errs bytes.Buffer
		if status := run(t.Context(), args, &errs, &errs); status != exitUsage || errs.Len() == 0 {
			t.Errorf("%q: status %d, %q", args, status, errs.String())
		}
	}
	var errs bytes.Buffer
	if status := run(t.Context(), []string{"-name", "signpost-no-such-lab", "exec", "pod-a", "true"}, &errs, &errs); status != exitFailed || !strings.Contains(errs.String(), "start it with: lab up") {
		t.Errorf("no lab: status %d, %q", status, errs.String())
	}
}

// The whole of it: up, a few of the things that it says to try, down.
func TestUpAndDown(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("REQUIRE_KERNEL") == "" {
		t.Skip("needs root, for network namespaces")
	}
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "signpost/cmd/signpost", "signpost/cmd/echo").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	name := fmt.Sprintf("signpost-labtest-%d", os.Getpid())
	call := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if status := run(t.Context(), append([]string{"-name", name}, args...), &out, &errs); status != want {
			t.Errorf("lab %q: status %d, want %d: %s", args, status, want, errs.String())
		}
		return out.String()
	}
	up := []string{"up", "-mode", "userspace", "-v6", "-signpost", filepath.Join(bin, "signpost"), "-echo", filepath.Join(bin, "echo")}
	defer call(0, "down")
	out := call(0, up...)
	for _, says := range []string{"pod-a", "192.168.6.140, fd00:6::140", "HOST=pod-a CMD='curl -s http://web/'", "make lab-down"} {
		if !strings.Contains(out, says) {
			t.Errorf("does not say %q: %s", says, out)
		}
	}
	call(exitFailed, up...) // it is up already
	if got := call(0, "exec", "pod-a", "--", "curl", "-s", "http://web/"); !strings.HasPrefix(got, "pod pod-") {
		t.Errorf("web: %q", got)
	}
	const refused, timedOut = 7, 28
	call(refused, "exec", "pod-a", "curl", "-s", "-m", "2", "10.96.0.86")
	call(timedOut, "exec", "pod-a", "--", "curl", "-s", "-m", "0.2", "203.0.113.80")
	if got := call(0, "exec", "outside", "--", "curl", "-s", "203.0.113.80"); !strings.HasPrefix(got, "pod pod-") {
		t.Errorf("load balancer: %q", got)
	}
	if got := call(0, "exec", "pod-c", "curl", "-s", "10.96.0.82"); !strings.HasPrefix(got, "pod pod-c") && !strings.HasPrefix(got, "pod pod-d") {
		t.Errorf("only near pods: %q", got)
	}
	call(0, "down")
	if lab.Exists(name) {
		t.Error("still there after down")
	}
}
