package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"signpost/cmd/signpost/server"
)

func newCheck(s streams) *cobra.Command {
	var conf confFlags
	c := &cobra.Command{
		Use:   "check",
		Short: "Validate the Corefile and the manifests",
		Long: `Reads the Corefile and, if it names a folder of manifests, those. Every problem is
printed with its file and line. Nothing is opened, listened on or changed.`,
		Example: "  signpost check -conf Corefile",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log := newLogger(s.err)
			config, err := conf.load(log)
			if err != nil { // what it says would only be found wrong a second time
				config.Servers, config.VIP = nil, nil
			}
			problems, checkErr := server.Check(config, server.Options{Log: log})
			err = errors.Join(err, checkErr)
			for _, p := range problems {
				if p.Warning {
					_, _ = fmt.Fprintln(s.err, p) // advice: nothing depends on it
					continue
				}
				err = errors.Join(err, errors.New(p.String()))
			}
			if err != nil {
				return usageError{err}
			}
			return s.print("no problems\n")
		},
	}
	conf.add(c)
	conf.addPort(c)
	return c
}
