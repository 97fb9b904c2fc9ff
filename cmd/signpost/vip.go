package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"signpost/cmd/signpost/admin"
	"signpost/cmd/signpost/dataplane"
	"signpost/cmd/signpost/server"
)

func newVIP(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:     "vip",
		Short:   "Look at the dataplane, and clean up behind it",
		Example: "  signpost vip plan -conf Corefile\n  signpost vip cleanup --mode all",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newPlan(s), newDiff(s), newCleanup(s))
	return c
}

func newPlan(s streams) *cobra.Command {
	var conf confFlags
	var mode string
	flags := getFlags{allNamespaces: true}
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show the virtual servers that the Corefile and its source ask for",
		Long: `Shows the desired state of this node's dataplane, one virtual server a line, in
the order of their addresses. It needs no running server and touches nothing.`,
		Example: "  signpost vip plan -conf Corefile\n  signpost vip plan -conf Corefile -o yaml",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			print, err := flags.printer(admin.VirtualServers)
			if err != nil {
				return err
			}
			if err := dataplane.Known(mode); err != nil && mode != "" {
				return usageError{err}
			}
			log := slog.New(slog.DiscardHandler)
			config, err := conf.load(log)
			if err != nil {
				return err
			}
			state, err := server.Plan(c.Context(), config, mode, server.Options{Log: log})
			if err != nil {
				return err
			}
			if flags.output == "" {
				return state.Dump(s.out)
			}
			list, err := admin.PlanList(state, admin.Filter{})
			if err != nil {
				return err
			}
			return show(s, print, list, admin.Filter{})
		},
	}
	conf.add(c)
	c.Flags().StringVar(&mode, "mode", "", "plan for this mode (default: the Corefile's)")
	c.Flags().StringVarP(&flags.output, "output", "o", "", "wide, yaml or json (default: one line a virtual server)")
	return c
}

func newCleanup(s streams) *cobra.Command {
	var mode string
	c := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove everything that signpost made in the kernel",
		Long: `Removes what any signpost process on this machine made in the kernel: rules, sets,
virtual servers, devices, routes. It needs neither a server nor a source, and
can be run again.`,
		Example: "  signpost vip cleanup\n  signpost vip cleanup --mode userspace",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := dataplane.Known(mode); err != nil && mode != "all" {
				return usageError{err}
			}
			if err := dataplane.Cleanup(c.Context(), mode, newLogger(s.err)); err != nil {
				return err
			}
			return s.print("clean\n")
		},
	}
	c.Flags().StringVar(&mode, "mode", "all", "clean up behind this mode alone")
	return c
}
