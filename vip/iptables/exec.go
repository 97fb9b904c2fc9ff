package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-iptables/iptables"
)

// runner runs a command to its end. It is the seam at which tests stand in for
// the machine's binaries.
type runner interface {
	// run feeds stdin to the command and returns what it wrote to its standard
	// output. A command that ended with a status other than 0 is a *toolError.
	run(ctx context.Context, stdin []byte, name string, args ...string) ([]byte, error)
	// find returns the path of a command.
	find(name string) (string, error)
	// randomFully reports whether an iptables can masquerade with random ports.
	randomFully(path string) (bool, error)
}

const (
	// runLimit bounds one command: the largest write takes seconds (X06).
	runLimit = 2 * time.Minute
	// pipeLimit bounds the wait for a killed command's children, which may hold
	// its output open.
	pipeLimit = time.Second
)

// processes runs real commands, in the calling thread's network namespace.
type processes struct{}

func (processes) find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("looking for %q: %w", name, err)
	}
	return path, nil
}

func (processes) randomFully(path string) (bool, error) {
	ipt, err := iptables.New(iptables.Path(path))
	if err != nil {
		return false, fmt.Errorf("asking %q for its version: %w", path, err)
	}
	return ipt.HasRandomFully(), nil
}

func (processes) run(ctx context.Context, stdin []byte, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runLimit, fmt.Errorf("no end after %s", runLimit))
	defer cancel()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &problems
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = pipeLimit
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("running %s: %w", cmd.Args[0], context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, &toolError{tool: cmd.Args[0], status: exit.ExitCode(), state: exit.String(), stderr: problems.String()}
	}
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", cmd.Args[0], err)
	}
	return out.Bytes(), nil
}

// toolError is a command that ran and said no.
type toolError struct {
	tool   string
	status int    // -1: ended by a signal
	state  string // "exit status 4", "signal: killed"
	stderr string
}

// excerpt bounds what an error repeats of a command's words.
const excerpt = 300

// Error tells how the command ended, and its last words.
func (e *toolError) Error() string {
	words := strings.Join(strings.Fields(strings.ToValidUTF8(e.stderr, "?")), " ")
	if len(words) > excerpt {
		words = strings.ToValidUTF8(words[:excerpt], "") + "…"
	}
	return fmt.Sprintf("running %s: %s: %s", e.tool, e.state, words)
}

// The exit statuses of xtables' programs.
const (
	statusOther = 1 // the kernel refused, or some other problem
	statusUsage = 2 // the input made no sense
	statusBusy  = 4 // a lock or another resource: try again
)

// refusal reports whether the command looked at its input and said no to it, as
// opposed to not being able to work at all. The legacy commands end with the
// same status where they lack privileges.
func refusal(err error) (*toolError, bool) {
	var e *toolError
	if !errors.As(err, &e) || e.status != statusOther && e.status != statusUsage {
		return nil, false
	}
	for _, other := range []string{"Permission denied", "Resource temporarily unavailable", "Memory allocation problem"} {
		if strings.Contains(e.stderr, other) {
			return nil, false
		}
	}
	return e, true
}

// lineNumber finds the lines that an error is about:
//
//	line 18: RULE_APPEND failed (No such file or directory): rule in chain X    nf_tables
//	Error occurred at line: 18                                                  both, on parsing
//	iptables-restore: line 20 failed                                            legacy: 20 is COMMIT
var lineNumber = regexp.MustCompile(`\bline:? (\d+)\b`)

func (e *toolError) lines() []int {
	var numbers []int
	for _, m := range lineNumber.FindAllStringSubmatch(e.stderr, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// about returns what the command said of a line, or all that it said.
func (e *toolError) about(line int) error {
	words := strings.Fields(e.stderr)
	text := strings.Join(words, " ")
	for l := range strings.Lines(e.stderr) {
		if m := lineNumber.FindStringSubmatch(l); m != nil && m[1] == strconv.Itoa(line) && strings.Contains(l, "failed (") {
			_, text, _ = strings.Cut(strings.TrimSpace(l), ": ")
		}
	}
	if len(text) > excerpt {
		text = strings.ToValidUTF8(text[:excerpt], "") + "…"
	}
	return fmt.Errorf("%s refused a rule: %s", e.tool, text)
}
