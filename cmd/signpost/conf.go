package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"signpost/cmd/signpost/admin"
	"signpost/cmd/signpost/corefile"
)

// defaultName is the Corefile that is looked for without -conf.
const defaultName = "Corefile"

// confFlags say which Corefile to read, and how.
type confFlags struct {
	file string
	port uint16
}

func (f *confFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "conf", "", "the Corefile (default: ./Corefile, else a built-in one)")
}

func (f *confFlags) addPort(c *cobra.Command) {
	c.Flags().Uint16Var(&f.port, "dns.port", corefile.DefaultPort, "the DNS port of server blocks that name none")
}

// load reads the Corefile, or the built-in one, which it logs.
func (f *confFlags) load(log *slog.Logger) (*corefile.Config, error) {
	options := corefile.Options{Port: f.port}
	if f.file != "" {
		return corefile.Load(f.file, options)
	}
	_, err := os.Stat(defaultName)
	if errors.Is(err, fs.ErrNotExist) {
		text := builtIn()
		log.Info("no Corefile here: using the built-in one", "corefile", text)
		return corefile.Parse("built-in Corefile", []byte(text), options)
	}
	return corefile.Load(defaultName, options)
}

// builtIn chooses the built-in Corefile: the folder "manifests" if it is there,
// else the API server of the cluster.
func builtIn() string {
	if info, err := os.Stat("manifests"); err == nil && info.IsDir() {
		return corefile.Default
	}
	return corefile.DefaultInCluster
}

// adminAddress is where the server of this Corefile listens for commands. A
// Corefile with problems still tells.
func (f *confFlags) adminAddress() string {
	config, _ := f.load(slog.New(slog.DiscardHandler)) // the server has reported its problems
	if config.Admin != "" {
		return config.Admin
	}
	return admin.DefaultAddress()
}
