package ipvs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

// kernel is what this package needs of IPVS. Each call is one request, bounded
// in time. Errors are those of the kernel: EEXIST for what is there already,
// ESRCH for a server and ENOENT for a destination that is not.
//
// A dump can lack entries if somebody changed the table meanwhile, and nothing
// says so. Nothing is concluded from what a dump lacks: what is missing is
// added, and EEXIST then tells that it was there.
type kernel interface {
	servers(ctx context.Context) ([]listed, error)
	destinations(ctx context.Context, key serverKey) ([]destination, error)
	// summaries lists the IPv4 servers, about n of them, at hardly any cost;
	// false: this can't be done here. The list lasts until the next call.
	summaries(n int) (iter.Seq[summary], bool, error)
	addServer(ctx context.Context, key serverKey, spec serverSpec) error
	setServer(ctx context.Context, key serverKey, spec serverSpec) error
	deleteServer(ctx context.Context, key serverKey) error
	addDestination(ctx context.Context, key serverKey, to netip.AddrPort, weight int) error
	setDestination(ctx context.Context, key serverKey, to netip.AddrPort, weight int) error
	deleteDestination(ctx context.Context, key serverKey, to netip.AddrPort) error
	close()
}

// listed is a server as a dump has it.
type listed struct {
	key  serverKey
	spec serverSpec
}

// destination is an endpoint of an IPVS server.
type destination struct {
	to          netip.AddrPort
	weight      int
	connections int // active and ending ones
}

// refused reports whether the kernel understood a request and can't do it, as
// opposed to not answering or not letting us ask: then only the frontend at
// hand is lost.
func refused(err error) bool {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case unix.EPERM, unix.EACCES, unix.EAGAIN, unix.EINTR, unix.ENOBUFS, unix.EPIPE, unix.ETIMEDOUT, unix.EBADF, unix.ESRCH:
		return false
	}
	return true
}

// refusalError is why the kernel can't have one frontend. Any other error says
// that what the kernel holds is not known.
type refusalError struct{ reason string }

func (e refusalError) Error() string { return e.reason }

// refuse makes a refusal of an error that is one, and adds what was done.
func refuse(doing string, err error) error {
	if refused(err) {
		return refusalError{fmt.Sprintf("%s: %v", doing, err)}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// refuseServer says in words why a server can't be had.
func refuseServer(key serverKey, spec serverSpec, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return refusalError{fmt.Sprintf("scheduler %q: this kernel has no such IPVS scheduler (module ip_vs_%s)", spec.scheduler, spec.scheduler)}
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return refusalError{fmt.Sprintf("protocol %s: this kernel's IPVS can't balance it", key.frontend.Protocol)}
	case errors.Is(err, unix.EAFNOSUPPORT):
		return refusalError{"this kernel's IPVS has no IPv6"}
	}
	return refuse(fmt.Sprintf("writing IPVS server %s", key), err)
}
