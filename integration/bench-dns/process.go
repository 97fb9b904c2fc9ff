package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc/PID/stat, 1/100 s on every Linux.
const clockTick = 10 * time.Millisecond

// process is a server under test.
type process struct {
	name string
	port int
	cmd  *exec.Cmd
	done chan error
}

// start starts a server and waits until it answers the probe, a question.
func start(ctx context.Context, name string, port int, log string, argv ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("starting %q: %w", name, err)
	}
	defer func() { _ = out.Close() }() // the process has its own
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, filepath.Dir(log)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %q: %w", name, err)
	}
	p := &process{name: name, port: port, cmd: cmd, done: make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	if err := p.await(ctx); err != nil {
		p.stop()
		text, _ := os.ReadFile(log) // what there is of it
		return nil, fmt.Errorf("starting %q: %w\n%s", name, err, text)
	}
	return p, nil
}

// probe asks for the address of the first service.
var probe = []byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09service-0\x04ns-0\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01")

// await waits for an answer without error.
func (p *process) await(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)))
	if err != nil {
		return fmt.Errorf("waiting for it: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is buffered
	reply := make([]byte, 4096)
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
		select {
		case err := <-p.done:
			p.done <- err
			return fmt.Errorf("it ended: %w", err)
		default:
		}
		_, _ = conn.Write(probe)                                         // tried again
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // a read will tell
		if n, err := conn.Read(reply); err == nil && n > 12 && reply[3]&0xF == 0 {
			return nil
		}
	}
	return errors.New("no answer within 30 s")
}

// stop ends it.
func (p *process) stop() {
	_ = p.cmd.Process.Kill() // may have ended
	<-p.done                 //nolint:errcheck // killed: it says so
}

// cpu is the processor time that it has used, in user and kernel.
func (p *process) cpu() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("reading cpu time: %w", err)
	}
	_, rest, _ := strings.Cut(string(data), ") ") // behind the name
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("reading cpu time: %d fields", len(fields))
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// resident is its memory in MiB.
func (p *process) resident() float64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)) // 0 if it has ended
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			return kib / 1024
		}
	}
	return 0
}
