package ruleset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// notifyBuffer holds the notifications of one of our own full writes.
	notifyBuffer = 64 << 20
	// settle is how long the ruleset has to be quiet before drift is reported:
	// whoever flushes tables does it in several steps (B63).
	settle = 300 * time.Millisecond
)

// Watch listens to the kernel's notifications, in the calling thread's network
// namespace, and reports transactions of others that touch the table, until ctx
// ends. Process returns our own number as [Generation] has it.
func Watch(ctx context.Context, table string, process func() uint32, drift func()) error {
	socket, err := subscribe()
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	f := follower{table: table, process: process}
	return f.follow(ctx, socket, drift)
}

func subscribe() (*netlink.Conn, error) {
	socket, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("watching nftables: %w", err)
	}
	err = errors.Join(socket.SetReadBuffer(notifyBuffer), socket.JoinGroup(unix.NFNLGRP_NFTABLES))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watching nftables: %w", err), socket.Close())
	}
	return socket, nil
}

// follower makes sense of notifications. A transaction's objects come first,
// its generation message, which names the author, last.
type follower struct {
	table   string
	process func() uint32
	touched bool // the transaction being read concerns our table
	drifted bool
}

// follow reads notifications and reports drift once the ruleset is quiet again.
func (f *follower) follow(ctx context.Context, socket *netlink.Conn, drift func()) error {
	ended := func() bool { return ctx.Err() != nil }
	for {
		deadline := time.Time{}
		if f.drifted {
			deadline = time.Now().Add(settle)
		}
		if err := socket.SetReadDeadline(deadline); err != nil {
			return fmt.Errorf("watching nftables: %w", err)
		}
		// Looked at only now, so that the deadline set when ctx ends is the last one.
		if ended() {
			return nil
		}
		messages, err := socket.Receive()
		switch {
		case ended():
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			f.drifted = false
			drift()
		case errors.Is(err, unix.ENOBUFS):
			f.drifted = true // something was missed
		case err != nil:
			return fmt.Errorf("watching nftables: %w", err)
		}
		f.read(messages)
	}
}

func (f *follower) read(messages []netlink.Message) {
	for _, m := range messages {
		f.touched = f.touched || f.concernsTable(m)
		if g, ok := generationOf(m); ok {
			f.drifted = f.drifted || f.touched && g.Process != f.process()
			f.touched = false
		}
	}
}

func generationOf(m netlink.Message) (Generation, bool) {
	if m.Header.Type != netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN) {
		return Generation{}, false
	}
	g, err := parseGeneration(m)
	return g, err == nil
}

// concernsTable reports whether a notification is about an object of our
// table: the table's name is the first attribute of every kind of object.
func (f *follower) concernsTable(m netlink.Message) bool {
	const name = 4 + 4 // struct nfgenmsg, attribute header
	if len(m.Data) < name || m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES {
		return false
	}
	length := int(binary.NativeEndian.Uint16(m.Data[4:6]))
	end := min(len(m.Data), 4+length)
	return end > name && string(m.Data[name:end]) == f.table+"\x00"
}
