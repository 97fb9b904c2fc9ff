package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"signpost/cmd/signpost/corefile"
)

// The exit statuses.
const (
	exitDone   = 0
	exitFailed = 1 // it failed while running
	exitUsage  = 2 // bad usage or configuration
)

// streams is where a command writes.
type streams struct{ out, err io.Writer }

// print writes to the standard output.
func (s streams) print(text string) error { return write(s.out, text) }

func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// usageError is a mistake on the command line or in the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run executes one command line and returns its exit status. Errors go to
// s.err, one a line.
func run(ctx context.Context, args []string, s streams) int {
	root := newRoot(s)
	root.SetArgs(longFlags(root, args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errDifferent) {
		return exitDifferent
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		_, _ = fmt.Fprintln(s.err, line) // there is no better place to say so
	}
	var usage usageError
	var config corefile.Errors
	if errors.As(err, &usage) || errors.As(err, &config) {
		return exitUsage
	}
	return exitFailed
}

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "signpost",
		Short: "Names and virtual addresses of a cluster's Services, on one node",
		Long: `signpost does on one node what a cluster otherwise needs two programs for: it
answers the DNS names of Services, and it makes their virtual addresses work.`,
		Example:       "  signpost serve -conf Corefile\n  signpost get services -A",
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w (see %s -h)", err, c.CommandPath())
	})
	root.AddCommand(newServe(s), newCheck(s), newGet(s), newVIP(s), newVersion(s))
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Example = "  source <(signpost completion bash)"
		}
	}
	return root
}

// noArgs refuses arguments, and with them unknown commands.
func noArgs(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasAvailableSubCommands():
		var names []string
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		return usagef("unknown command %q for %q: must be one of %s", args[0], c.CommandPath(), strings.Join(names, ", "))
	default:
		return usagef("%s: unexpected argument %q", c.CommandPath(), args[0])
	}
}

// longFlags lets long flags stand with one dash, as CoreDNS's do: "-conf" is
// "--conf". Short flags stay what they are.
func longFlags(root *cobra.Command, args []string) []string {
	known := map[string]bool{}
	collectFlags(root, known)
	fixed := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(fixed, args[i:]...)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && known[name] {
			arg = "-" + arg
		}
		fixed = append(fixed, arg)
	}
	return fixed
}

func collectFlags(c *cobra.Command, known map[string]bool) {
	add := func(f *pflag.Flag) { known[f.Name] = len(f.Name) > 1 }
	c.Flags().VisitAll(add)
	c.PersistentFlags().VisitAll(add)
	for _, sub := range c.Commands() {
		collectFlags(sub, known)
	}
}
