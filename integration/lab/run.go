package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// RunIn calls f with the calling thread in a host's network namespace: sockets
// that f opens, netlink's too, belong to the host for good. Goroutines that f
// starts are elsewhere.
func (l *Lab) RunIn(host string, f func() error) error {
	h, err := l.host(host)
	if err != nil {
		return err
	}
	return within(h.ns, f)
}

// Dial connects from a host. The address has to be numeric; the deadline is the
// context's.
func (l *Lab) Dial(ctx context.Context, host, network, address string) (net.Conn, error) {
	return l.DialWith(ctx, host, net.Dialer{}, network, address)
}

// DialWith is Dial with a dialer of the caller's choice, for a local address.
func (l *Lab) DialWith(ctx context.Context, host string, d net.Dialer, network, address string) (net.Conn, error) {
	var c net.Conn
	err := l.RunIn(host, func() error {
		var err error
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Listen listens on a host, with TCP.
func (l *Lab) Listen(ctx context.Context, host, address string) (net.Listener, error) {
	var listener net.Listener
	err := l.RunIn(host, func() error {
		var config net.ListenConfig
		var err error
		listener, err = config.Listen(ctx, "tcp", address)
		return err
	})
	return listener, err
}

// Command prepares a command that, once started by [Lab.Start], runs on a host.
// Where [Lab.Resolve] was called, it resolves names as told there.
func (l *Lab) Command(ctx context.Context, host, name string, args ...string) *exec.Cmd {
	conf := l.resolvConf(host)
	if _, err := os.Stat(conf); err != nil {
		return exec.CommandContext(ctx, name, args...)
	}
	script := `mount --bind "$0" /etc/resolv.conf && exec "$@"`
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", script, conf, name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd
}

// Exec runs a command on a host and returns its standard output. The error of
// one that fails has its standard error.
func (l *Lab) Exec(ctx context.Context, host, name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := l.Command(ctx, host, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := l.RunIn(host, cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return out.String(), fmt.Errorf("running %q on %q: %w: %s", name+" "+strings.Join(args, " "), host, err, trim(errs.String()))
	}
	return out.String(), nil
}

// Resolve makes commands on a host ask a name server, with search domains.
func (l *Lab) Resolve(host, server string, search ...string) error {
	text := "nameserver " + server + "\noptions ndots:5\n"
	if len(search) > 0 {
		text += "search " + strings.Join(search, " ") + "\n"
	}
	if err := os.WriteFile(l.resolvConf(host), []byte(text), 0o644); err != nil {
		return fmt.Errorf("setting the name server of %q: %w", host, err)
	}
	return nil
}

func (l *Lab) resolvConf(host string) string { return filepath.Join(l.Dir, host+".resolv.conf") }

// Process is a program that runs on a host.
type Process struct {
	Log string // file with its output

	cmd    *exec.Cmd
	ended  chan struct{}
	ending sync.Once
	err    error // valid once ended is closed
}

// Start starts a command on a host; its output goes to NAME.log in the lab's
// folder. The lab ends it in Close.
func (l *Lab) Start(host, name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{Log: filepath.Join(l.Dir, name+".log"), cmd: cmd, ended: make(chan struct{})}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting %q on %q: %w", name, host, err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true // a lab that is left goes on without its terminal
	if err := l.RunIn(host, cmd.Start); err != nil {
		return nil, fmt.Errorf("starting %q on %q: %w", name, host, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	l.keep(p)
	return p, nil
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stop asks the process to end (SIGTERM) and waits; after ten seconds it is
// killed. The error is how it ended, nil for status 0.
func (p *Process) Stop() error {
	const patience = 10 * time.Second
	return p.end(syscall.SIGTERM, patience)
}

// Kill kills the process (SIGKILL) and waits.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL, 0) }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Close is Stop without a word on how it ended.
func (p *Process) Close() error {
	_ = p.Stop()
	return nil
}

func (p *Process) end(s os.Signal, patience time.Duration) error {
	p.ending.Do(func() {
		if err := p.cmd.Process.Signal(s); errors.Is(err, os.ErrProcessDone) {
			return
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
			_ = p.cmd.Process.Kill()
		}
	})
	<-p.ended
	return p.err
}

// Output returns what the process has written so far.
func (p *Process) Output() string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
