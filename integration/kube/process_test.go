package kube

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"signpost/integration/lab"
)

// process is a program that runs until the end of the test at the latest.
type process struct {
	log   string // file
	cmd   *exec.Cmd
	ended chan struct{}
}

// startProcess starts a program; its output is appended to dir/name.log.
func startProcess(t *testing.T, dir, name, binary string, args ...string) *process {
	t.Helper()
	p := &process{log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), binary, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := launch(p.cmd); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill() // an API server takes its time to say good-bye
		if t.Failed() {
			t.Logf("%s:\n%s", name, tail(p.output()))
		}
	})
	return p
}

// launch starts a command on one thread that stays: children that are to end
// with the test end, for the kernel, with the thread that started them.
func launch(cmd *exec.Cmd) error {
	result := make(chan error)
	launcher() <- func() { result <- cmd.Start() }
	return <-result
}

var launcher = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// kill ends it as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func tail(text string) string {
	const most = 3000
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// freePort returns a loopback port that was free for TCP and UDP.
func freePort(t *testing.T) string {
	t.Helper()
	port, err := lab.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// patience is how long anything may take that is no matter of speed.
const patience = 90 * time.Second

// eventually polls what has no event that a test could wait for.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %v", what, patience)
		case <-ticker.C:
		}
	}
}
