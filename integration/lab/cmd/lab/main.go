// Command lab starts, uses and removes a small cluster out of network
// namespaces, in which signpost runs on each node. It needs root; nothing of
// the cluster is reachable from the machine's own network.
//
//	lab up [-mode nftables] [-v6] [-manifests DIR]
//	lab exec HOST [--] COMMAND [ARGUMENT…]
//	lab down
//
// A name before the verb (lab -name NAME up) makes it another lab.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"signpost/integration/lab"
)

const (
	exitFailed = 1
	exitUsage  = 2

	usage = `usage:
  lab up [flags]                      start the lab and leave it running (lab up -h)
  lab exec HOST [--] COMMAND [ARG…]   run a command on one of its hosts
  lab down                            end what runs in it and remove it
-name NAME before the verb: the lab's name (default signpost-lab)
`
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	err := dispatch(ctx, args, out, errs)
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended) && ended.Exited():
		return ended.ExitCode() // the command has said why
	case errors.Is(err, errUsage):
		fmt.Fprint(errs, usage)
		return exitUsage
	case errors.Is(err, errFlags):
		return exitUsage
	}
	fmt.Fprintln(errs, "lab:", err)
	return exitFailed
}

var (
	errUsage = errors.New("bad usage")
	errFlags = errors.New("bad flags") // the flag package has said why
)

func dispatch(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	name := flags.String("name", "signpost-lab", "")
	if flags.Parse(args) != nil || flags.NArg() == 0 {
		return errUsage
	}
	args = flags.Args()
	switch rest := args[1:]; args[0] {
	case "up":
		return up(ctx, *name, rest, out, errs)
	case "exec":
		return execute(ctx, *name, rest, out, errs)
	case "down":
		if len(rest) > 0 {
			return errUsage
		}
		return lab.Remove(*name, "")
	}
	return errUsage
}

func execute(ctx context.Context, name string, args []string, out, errs io.Writer) error {
	if len(args) > 1 && args[1] == "--" {
		args = append(args[:1:1], args[2:]...)
	}
	if len(args) < 2 {
		return errUsage
	}
	l, err := lab.Open(name, "")
	if err != nil {
		return fmt.Errorf("%w: start it with: lab up", err)
	}
	defer l.Leave()
	host := args[0]
	cmd := l.Command(ctx, host, args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, errs
	if err := l.RunIn(host, cmd.Start); err != nil {
		return fmt.Errorf("running %q on %q: %w", args[1], host, err)
	}
	return cmd.Wait()
}
