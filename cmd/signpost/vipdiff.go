package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"signpost/cmd/signpost/admin"
	"signpost/cmd/signpost/server"
	"signpost/vip/userspace"
)

// errDifferent is no failure, but has an exit status of its own: kubectl's.
var errDifferent = errors.New("there are differences")

const exitDifferent = 1

func newDiff(s streams) *cobra.Command {
	var conf confFlags
	var mode string
	c := &cobra.Command{
		Use:   "diff",
		Short: "Show how plan and kernel differ",
		Long: `Shows what the next look at the kernel would change, one line each, and touches
nothing:

  + missing: wanted, and not in the kernel
  - unwanted: in the kernel, and nobody wants it
  ~ different: there, but not as it is wanted

The plan is the running server's, if it runs in this mode; else it is made from
the Corefile and its source, as "vip plan" does it. What the mode userspace does
is known to the running server alone.

Exit status, as kubectl diff's: 0 no difference, 1 there are some, 2 it could
not be told (other commands have 1 for that).`,
		Example: "  signpost vip diff\n  signpost vip diff -conf Corefile --mode nftables",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := diff(c.Context(), &conf, mode)
			if err != nil {
				return usageError{err} // the same status
			}
			for _, line := range d.Differences {
				if _, err := fmt.Fprintln(s.out, line); err != nil {
					return usageError{fmt.Errorf("writing the differences: %w", err)}
				}
			}
			if len(d.Differences) > 0 {
				return errDifferent
			}
			return nil
		},
	}
	conf.add(c)
	c.Flags().StringVar(&mode, "mode", "", "compare with what this mode has in the kernel (default: the server's, else the Corefile's)")
	return c
}

// diff asks the running server, or looks by itself.
func diff(ctx context.Context, conf *confFlags, mode string) (*admin.Diff, error) {
	d, asked := askDiff(ctx, conf, mode)
	if asked == nil {
		return d, nil
	}
	log := slog.New(slog.DiscardHandler)
	config, err := conf.load(log)
	if err != nil {
		return nil, err
	}
	mode, list, err := server.Diff(ctx, config, mode, server.Options{Log: log})
	if errors.Is(err, userspace.ErrElsewhere) {
		return nil, fmt.Errorf("%w: %w", err, asked)
	}
	if err != nil {
		return nil, err
	}
	return admin.NewDiff(mode, list), nil
}

// askDiff has the running server compare. The error says why it can't.
func askDiff(ctx context.Context, conf *confFlags, mode string) (*admin.Diff, error) {
	client, err := admin.NewClient(conf.adminAddress())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	status, err := client.Status(ctx)
	if err != nil {
		return nil, err
	}
	if mode != "" && mode != status.Mode {
		return nil, fmt.Errorf("the running server's mode is %s", status.Mode)
	}
	return client.Diff(ctx)
}
