package main

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"signpost/cmd/signpost/dataplane"
)

// version is set by the linker; a plain "go build" leaves it to the module's
// build information.
var version = "" //nolint:gochecknoglobals // the linker sets it

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func newVersion(s streams) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version and which dataplanes this machine can run",
		Example: "  signpost version",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text := fmt.Sprintf("signpost %s\n%s %s/%s\nmodes:\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			for _, p := range dataplane.Probe(c.Context(), slog.New(slog.DiscardHandler)) {
				text += fmt.Sprintf("  %-10s %s\n", p.Mode, canRun(p.Reason))
			}
			return s.print(text)
		},
	}
}

func canRun(reason error) string {
	if reason == nil {
		return "yes"
	}
	return fmt.Sprintf("no: %v", reason)
}
