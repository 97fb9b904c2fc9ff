package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
	// output and error. One that ended with a status other than 0 is a *toolError.
	run(ctx context.Context, stdin []byte, name string, args ...string) (out, problems string, err error)
	// find returns the path of a command.
	find(name string) (string, error)
	// randomFully reports whether an iptables can masquerade with random ports.
	randomFully(path string) (bool, error)
	// generation returns the number of transactions that nf_tables has committed.
	generation(ctx context.Context) (uint32, error)
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

func (processes) generation(ctx context.Context) (uint32, error) { return generation(ctx) }

func (processes) run(ctx context.Context, stdin []byte, name string, args ...string) (string, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, runLimit, fmt.Errorf("no end after %s", runLimit))
	defer cancel()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &problems
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = pipeLimit
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", "", fmt.Errorf("running %s: %w", cmd.Args[0], context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", "", &toolError{tool: cmd.Args[0], status: exit.ExitCode(), state: exit.String(), stderr: problems.String()}
	}
	if err != nil {
		return "", "", fmt.Errorf("running %s: %w", cmd.Args[0], err)
	}
	return out.String(), problems.String(), nil
}

// toolError is a command that ran and said no.
type toolError struct {
	tool   string
	status int    // -1: ended by a signal
	state  string // "exit status 4", "signal: killed"
	stderr string
}

// Error tells how the command ended, and its words.
func (e *toolError) Error() string {
	words := strings.Join(strings.Fields(strings.ToValidUTF8(e.stderr, "?")), " ")
	return fmt.Sprintf("running %s: %s: %s", filepath.Base(e.tool), e.state, shortened(words))
}

// Is says that a command without the privileges is [fs.ErrPermission].
func (e *toolError) Is(target error) bool {
	return target == fs.ErrPermission && strings.Contains(e.stderr, "Permission denied")
}

// The exit statuses of xtables' programs.
const (
	statusOther = 1 // the kernel refused, or some other problem
	statusUsage = 2 // the input made no sense
	statusBusy  = 4 // a lock or another resource: try again
)

// refusal reports whether the command looked at its input and it, or the
// kernel, said no, as opposed to not being able to work at all. With nf_tables
// the kernel's refusal of a line has the status of a busy resource.
func refusal(err error) (*toolError, bool) {
	var e *toolError
	if !errors.As(err, &e) {
		return nil, false
	}
	no := e.status == statusOther || e.status == statusUsage || e.status == statusBusy && lineFailed.MatchString(e.stderr)
	for _, other := range []string{
		"Permission denied", "Operation not permitted", "Resource temporarily unavailable", "Memory allocation problem",
	} {
		no = no && !strings.Contains(e.stderr, other)
	}
	return e, no
}

// lineFailed is how the nf_tables commands tell what the kernel said to a line.
var lineFailed = regexp.MustCompile(`(?m)line (\d+): (\w+ failed \(.*)$`)

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

// about returns what was said of a line, or all that was said.
func (e *toolError) about(line int) error {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(e.stderr, "?")), " ")
	for _, m := range lineFailed.FindAllStringSubmatch(e.stderr, -1) {
		if m[1] == strconv.Itoa(line) {
			text = m[2]
		}
	}
	return fmt.Errorf("%s refused a rule: %s", filepath.Base(e.tool), shortened(text))
}

// excerpt bounds what an error repeats of a command's words.
const excerpt = 300

func shortened(text string) string {
	if len(text) > excerpt {
		return strings.ToValidUTF8(text[:excerpt], "") + "…"
	}
	return text
}
