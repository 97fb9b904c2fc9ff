package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// claimName is an abstract Unix socket: it exists once in a network namespace,
// as the rules do, and goes with the process that holds it, however that ends.
const claimName = "@signpost-dataplane"

// Claim is the right to make rules in this network namespace. One process has
// it at a time (L-08).
type Claim struct{ listener net.Listener }

// TakenError says that another process has the claim.
type TakenError struct{ PID int32 }

// Error names the process.
func (e *TakenError) Error() string {
	return fmt.Sprintf("another signpost runs the dataplane here, as process %d: end it first, or leave out vip", e.PID)
}

// TakeClaim takes the claim, or returns a [*TakenError]. A claim held by a
// user who could not make rules anyway is none: the result is then nil.
func TakeClaim(ctx context.Context) (*Claim, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", claimName)
	if err == nil {
		return &Claim{listener}, nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("claiming the dataplane: %w", err)
	}
	holder, err := claimant(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking who runs the dataplane here: %w", err)
	case holder.Uid != 0 && int(holder.Uid) != os.Geteuid():
		return nil, nil //nolint:nilnil // a squatter must not keep the dataplane from starting
	}
	return nil, &TakenError{PID: holder.Pid}
}

// claimant returns the process that holds the claim.
func claimant(ctx context.Context) (*unix.Ucred, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", claimName)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	var credentials *unix.Ucred
	controlErr := raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(controlErr, err); err != nil {
		return nil, fmt.Errorf("reading the peer's credentials: %w", err)
	}
	return credentials, nil
}

// Release gives the claim up. A nil claim has nothing to give.
func (c *Claim) Release() {
	if c != nil {
		_ = c.listener.Close() // it is gone in any case
	}
}
