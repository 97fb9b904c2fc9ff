package server

import (
	"context"
	"errors"
	"log/slog"

	"signpost/cmd/signpost/corefile"
	"signpost/cmd/signpost/dataplane"
	"signpost/vip/rivals"
)

// premises is this server's right to the dataplane of its network namespace.
type premises struct {
	log       *slog.Logger
	claim     *dataplane.Claim
	exclusive bool // no other signpost makes rules here
}

// enter takes the right, if it isn't held already. Two processes that program
// one kernel undo each other's work: that is an error of the start (L-08). Two
// that proxy by themselves can be side by side, each with Services of its own.
func (p *premises) enter(ctx context.Context, config *corefile.VIP, mode string) error {
	if p.exclusive {
		return nil
	}
	claim, err := dataplane.TakeClaim(ctx)
	switch {
	case err == nil:
		p.claim, p.exclusive = claim, true
	case programsKernel(mode):
		return config.Errorf("vip", "%v", err)
	default:
		var taken *dataplane.TakenError
		if errors.As(err, &taken) {
			err = nil
			p.log.Warn("another signpost runs a dataplane here: of a frontend that both have, one can't be opened", "process", taken.PID)
		}
		if err != nil {
			p.log.Warn("can't tell whether another signpost runs a dataplane here", "err", err)
		}
	}
	for _, r := range rivals.Find(ctx) {
		p.log.Warn("another proxy works on this machine: both answer the same addresses", "found", r.Sign, "remedy", r.Remedy)
	}
	return nil
}

func (p *premises) leave() {
	p.claim.Release()
	p.claim, p.exclusive = nil, false
}
