// Command echo is the pod of the examples and of the lab: it says who it is and
// whom it sees, over HTTP, in raw lines, by UDP and SCTP.
//
//	echo -name web-1 -listen 127.1.0.1:8080,127.1.0.1:8081 -udp
//	echo -pod web-1=127.1.0.1:8080 -pod web-2=127.1.0.2:8080
//
// GET /healthz tells whether it is ready, /healthz?ready=false makes it not so.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"signpost/integration/lab/echo"
)

// Exit statuses, as signpost's own.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run serves until ctx ends, and returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cfg, err := parse(args, errs)
	if err != nil {
		if !strings.Contains(err.Error(), flag.ErrHelp.Error()) {
			fmt.Fprintln(errs, "echo:", err)
		}
		return exitUsage
	}
	server, err := echo.Start(ctx, cfg)
	if err != nil {
		fmt.Fprintln(errs, "echo:", err)
		return exitFailed
	}
	for _, id := range cfg.Identities {
		fmt.Fprintf(out, "pod %s at %s\n", id.Name, id.Addr)
	}
	<-ctx.Done()
	if err := server.Close(); err != nil {
		fmt.Fprintln(errs, "echo:", err)
		return exitFailed
	}
	return 0
}

func parse(args []string, errs io.Writer) (echo.Config, error) {
	var cfg echo.Config
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	flags.SetOutput(errs)
	name := flags.String("name", hostName(), "the `pod`'s name, for -listen")
	listen := flags.String("listen", "", "comma-separated `ADDRESS:PORT`s of the pod")
	flags.Func("pod", "one more identity, `NAME=ADDRESS:PORT`; may be repeated", func(text string) error {
		name, at, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return fmt.Errorf("must be NAME=ADDRESS:PORT")
		}
		return add(&cfg, name, at)
	})
	flags.BoolVar(&cfg.UDP, "udp", false, "answer UDP as well")
	flags.BoolVar(&cfg.SCTP, "sctp", false, "answer SCTP as well; the kernel has to have it")
	if err := flags.Parse(args); err != nil {
		return cfg, fmt.Errorf("parsing flags: %w", err)
	}
	if flags.NArg() > 0 {
		return cfg, fmt.Errorf("parsing flags: unexpected %q", flags.Arg(0))
	}
	for at := range strings.SplitSeq(*listen, ",") {
		if at == "" {
			continue
		}
		if err := add(&cfg, *name, at); err != nil {
			return cfg, fmt.Errorf("parsing -listen: %w", err)
		}
	}
	if len(cfg.Identities) == 0 {
		return cfg, fmt.Errorf("nowhere to listen: give -listen or -pod")
	}
	return cfg, nil
}

func add(cfg *echo.Config, name, at string) error {
	addr, err := netip.ParseAddrPort(at)
	if err != nil {
		return fmt.Errorf("%q: must be ADDRESS:PORT: %w", at, err)
	}
	cfg.Identities = append(cfg.Identities, echo.Identity{Name: name, Addr: addr})
	return nil
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "echo"
	}
	return name
}
