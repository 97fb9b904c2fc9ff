package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/server"
)

func newServe(s streams) *cobra.Command {
	var conf confFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Answers DNS and keeps the dataplane, until SIGTERM or SIGINT. SIGUSR1 and SIGHUP
read the Corefile again.`,
		Example: `  signpost serve -conf Corefile
  signpost serve -conf Corefile -dns.port 1053`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			reload := make(chan os.Signal, 1)
			signal.Notify(reload, syscall.SIGUSR1, syscall.SIGHUP)
			defer signal.Stop(reload)
			return serve(ctx, &conf, newLogger(s.err), reload)
		},
	}
	conf.add(c)
	conf.addPort(c)
	return c
}

func serve(ctx context.Context, conf *confFlags, log *slog.Logger, reload <-chan os.Signal) error {
	config, err := conf.load(log)
	if err != nil {
		return err
	}
	running, err := server.Start(ctx, config, server.Options{Log: log, Version: versionText()})
	if err != nil {
		return err
	}
	return running.Run(ctx, reload, func() (*corefile.Config, error) { return conf.load(log) })
}

// newLogger writes one line a message: "time=… level=INFO msg=ready …".
func newLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
