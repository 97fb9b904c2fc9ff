package transactions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// buffer holds the notifications of one of our own full writes.
	buffer = 64 << 20
	// Settle is how long others have to leave rules alone before drift is
	// reported: whoever flushes them does it in several steps (B63).
	Settle = 300 * time.Millisecond
)

// Listener makes sense of notifications.
type Listener interface {
	// Read takes notifications. A transaction's objects come first, the message
	// that [Ends] it last; all name the socket that asked for it. (The process
	// that a generation message names as well is the thread that happened to
	// write, and no help.)
	Read(messages []netlink.Message, now time.Time)
	// Missed is called when there were too many notifications to read.
	Missed(now time.Time)
	// Due is when what was read is to be judged; zero: nothing is.
	Due() time.Time
	// Judge reports whether what was read is drift.
	Judge(ctx context.Context) bool
}

// Notifications is a socket on which the kernel tells of every transaction.
type Notifications struct{ socket *netlink.Conn }

// Listen begins to listen, in the calling thread's network namespace. What it
// returns has to be followed.
func Listen() (*Notifications, error) {
	socket, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("watching nf_tables: %w", err)
	}
	err = errors.Join(socket.SetReadBuffer(buffer), socket.JoinGroup(unix.NFNLGRP_NFTABLES))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watching nf_tables: %w", err), socket.Close())
	}
	return &Notifications{socket}, nil
}

// Follow has a listener read notifications and calls drift for what it judges
// to be that, until ctx ends. It closes the socket.
func (n *Notifications) Follow(ctx context.Context, l Listener, drift func()) error {
	defer func() { _ = n.socket.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = n.socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		if err := n.socket.SetReadDeadline(l.Due()); err != nil {
			return fmt.Errorf("watching nf_tables: %w", err)
		}
		// Looked at only now, so that the deadline set when ctx ends is the last one.
		if ended(ctx) {
			return nil
		}
		messages, err := n.socket.Receive()
		switch {
		case ended(ctx):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			if l.Judge(ctx) {
				drift()
			}
		case errors.Is(err, unix.ENOBUFS):
			l.Missed(time.Now())
		case err != nil:
			return fmt.Errorf("watching nf_tables: %w", err)
		}
		l.Read(messages, time.Now())
	}
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }
