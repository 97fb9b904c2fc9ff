package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"

	"signpost/cmd/signpost/corefile"
	"signpost/vip"
	"signpost/vip/iptables"
	"signpost/vip/ipvs"
	"signpost/vip/nftables"
	"signpost/vip/userspace"
)

// Options are what a backend of one mode or another has to know.
type Options struct {
	Scheduler string // ipvs: of virtual servers that ask for none; empty: rr
	IPVS      corefile.IPVS
}

// maker makes the backend of one mode. Making one touches nothing.
type maker struct {
	mode string
	make func(o Options, log *slog.Logger) vip.Backend
}

// makers lists the backends in the order in which mode auto tries them.
var makers = []maker{
	{"ipvs", func(o Options, log *slog.Logger) vip.Backend { return ipvs.New(o.ipvs(log)) }},
	{"nftables", func(_ Options, log *slog.Logger) vip.Backend { return nftables.New(log) }},
	{"iptables", func(_ Options, log *slog.Logger) vip.Backend { return iptables.New(iptables.Config{Log: log}) }},
	{"userspace", func(_ Options, log *slog.Logger) vip.Backend { return userspace.New(userspace.Config{Log: log}) }},
}

func (o Options) ipvs(log *slog.Logger) ipvs.Config {
	return ipvs.Config{
		Log: log, Scheduler: o.Scheduler, SchedulerFlags: o.IPVS.Flags, Drain: o.IPVS.Drain, StrictARP: o.IPVS.StrictARP,
	}
}

// Configure gives a backend that a new configuration uses again the options of
// that one.
func Configure(backend vip.Backend, o Options, log *slog.Logger) {
	if b, ok := backend.(*ipvs.Backend); ok {
		b.Configure(o.ipvs(log))
	}
}

// Auto is the mode that takes the first backend that can run.
const Auto = "auto"

// Rejection says why a backend was not chosen.
type Rejection struct {
	Mode   string
	Reason error
}

// Modes returns the names of all backends, in the order of mode auto.
func Modes() []string {
	names := make([]string, len(makers))
	for i, m := range makers {
		names[i] = m.mode
	}
	return names
}

// Known returns an error if this build has no backend for a mode.
func Known(mode string) error {
	_, err := candidates(mode, makers)
	return err
}

// Choose returns the backend for a mode, and those that auto passed over.
// The caller has to [Close] the backend.
func Choose(ctx context.Context, mode string, o Options, log *slog.Logger) (vip.Backend, []Rejection, error) {
	return choose(ctx, mode, makers, o, log)
}

func choose(ctx context.Context, mode string, from []maker, o Options, log *slog.Logger) (vip.Backend, []Rejection, error) {
	candidates, err := candidates(mode, from)
	if err != nil {
		return nil, nil, fmt.Errorf("choosing the dataplane: %w", err)
	}
	var rejected []Rejection
	for _, m := range candidates {
		backend := m.make(o, log)
		probeErr := backend.Probe(ctx)
		if probeErr == nil {
			return backend, rejected, nil
		}
		rejected = append(rejected, Rejection{m.mode, errors.Join(probeErr, Close(backend))})
	}
	reasons := make([]string, len(rejected))
	for i, r := range rejected {
		reasons[i] = fmt.Sprintf("mode %s: %v", r.Mode, r.Reason)
	}
	return nil, nil, fmt.Errorf("choosing the dataplane: this machine can't run it: %s", strings.Join(reasons, "; "))
}

// candidates returns the makers of a mode: all of them for auto.
func candidates(mode string, from []maker) ([]maker, error) {
	if mode == Auto {
		return from, nil
	}
	for _, m := range from {
		if m.mode == mode {
			return []maker{m}, nil
		}
	}
	if mode == "kernelspace" {
		return nil, fmt.Errorf("mode kernelspace: needs Windows, this machine runs %s: must be one of auto, %s",
			runtime.GOOS, strings.Join(Modes(), ", "))
	}
	return nil, fmt.Errorf("mode %s: this build has no such backend: must be one of auto, %s", mode, strings.Join(Modes(), ", "))
}

// Probe tells of every backend whether it can run here; a nil reason is yes.
func Probe(ctx context.Context, log *slog.Logger) []Rejection {
	all := make([]Rejection, len(makers))
	for i, m := range makers {
		backend := m.make(Options{}, log)
		all[i] = Rejection{m.mode, errors.Join(backend.Probe(ctx), Close(backend))}
	}
	return all
}

// Cleanup removes what the backends of a mode ("all": of every mode) ever
// made. One that fails does not stop the others; one that can't run here has
// made nothing (L-03).
func Cleanup(ctx context.Context, mode string, log *slog.Logger) error {
	if mode == "all" {
		mode = Auto
	}
	chosen, err := candidates(mode, makers)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range chosen {
		if err := m.cleanup(ctx, log); err != nil {
			errs = append(errs, fmt.Errorf("cleaning up mode %s: %w", m.mode, err))
		}
	}
	if mode == Auto {
		if err := letGo(); err != nil {
			log.Debug("removing what holds old connections", "error", err)
		}
	}
	return errors.Join(errs...)
}

func (m maker) cleanup(ctx context.Context, log *slog.Logger) error {
	backend := m.make(Options{}, log)
	err := backend.Cleanup(ctx)
	if err != nil && !errors.Is(err, fs.ErrPermission) && backend.Probe(ctx) != nil {
		err = nil
	}
	return errors.Join(err, Close(backend))
}

// Close ends what a backend runs in this process. What it made in the kernel
// stays.
func Close(backend vip.Backend) error {
	if closer, ok := backend.(interface{ Close() error }); ok {
		return closer.Close()
	}
	return nil
}
