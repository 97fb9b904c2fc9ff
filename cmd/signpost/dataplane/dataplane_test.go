package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"signpost/vip"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	backend, _, err := Choose(t.Context(), "userspace", Options{}, log)
	if err != nil || backend.Name() != "userspace" {
		t.Fatalf("userspace: %v, %v", backend, err)
	}
	if err := Close(backend); err != nil {
		t.Error(err)
	}
	for mode, want := range map[string]string{
		"kernelspace": "needs Windows", "nonsense": "this build has no such backend: must be one of auto, ",
	} {
		if _, _, err := Choose(t.Context(), mode, Options{}, log); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mode %s: %v, want %q", mode, err, want)
		}
	}
}

// impossible is a backend that can't run.
type impossible struct{ vip.Backend }

func (impossible) Probe(context.Context) error { return errors.New("no such kernel") }

func TestChooseTriesInOrder(t *testing.T) {
	t.Parallel()
	list := append([]maker{{"impossible", func(Options, *slog.Logger) vip.Backend { return impossible{} }}}, makers...)
	backend, rejected, err := choose(t.Context(), Auto, list, Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = Close(backend) }()
	if rejected[0].Mode != "impossible" || rejected[0].Reason.Error() != "no such kernel" {
		t.Errorf("rejected %v", rejected)
	}
	_, _, err = choose(t.Context(), Auto, list[:1], Options{}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "this machine can't run it: mode impossible: no such kernel") {
		t.Errorf("error %v", err)
	}
}
