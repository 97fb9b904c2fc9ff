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
	// settle is how long others have to leave the table alone before drift is
	// reported: whoever flushes tables does it in several steps (B63). Patience
	// is how long that is waited for.
	settle   = 300 * time.Millisecond
	patience = time.Second
)

// Watch reports transactions of others that touch a table, in the calling
// thread's network namespace, until ctx ends. Port is that of our own socket,
// 0 if there is none; see [Conn.Port].
func Watch(ctx context.Context, table string, port func() uint32, drift func()) error {
	s, err := Subscribe(table)
	if err != nil {
		return err
	}
	return s.Follow(ctx, port, drift)
}

// Subscription is a socket on which the kernel tells of every transaction.
type Subscription struct {
	table  string
	socket *netlink.Conn
}

// Subscribe begins to listen, in the calling thread's network namespace, to
// what is done to a table. It has to be followed.
func Subscribe(table string) (*Subscription, error) {
	socket, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("watching nftables: %w", err)
	}
	err = errors.Join(socket.SetReadBuffer(notifyBuffer), socket.JoinGroup(unix.NFNLGRP_NFTABLES))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watching nftables: %w", err), socket.Close())
	}
	return &Subscription{table, socket}, nil
}

// Follow is the rest of [Watch]. It closes the socket.
func (s *Subscription) Follow(ctx context.Context, port func() uint32, drift func()) error {
	defer func() { _ = s.socket.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = s.socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	f := follower{table: s.table, own: port}
	return f.follow(ctx, s.socket, drift)
}

// follow reads notifications and reports drift once the table is quiet again.
func (f *follower) follow(ctx context.Context, socket *netlink.Conn, drift func()) error {
	for {
		if err := socket.SetReadDeadline(f.due()); err != nil {
			return fmt.Errorf("watching nftables: %w", err)
		}
		// Looked at only now, so that the deadline set when ctx ends is the last one.
		if ended(ctx) {
			return nil
		}
		messages, err := socket.Receive()
		switch {
		case ended(ctx):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			f.first = time.Time{}
			drift()
		case errors.Is(err, unix.ENOBUFS):
			f.drifted(time.Now()) // something was missed
		case err != nil:
			return fmt.Errorf("watching nftables: %w", err)
		}
		f.read(messages, time.Now())
	}
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

// follower makes sense of notifications. A transaction's objects come first,
// its generation message last; all name the socket that asked for it. (The
// process that a generation message names as well is the thread that happened
// to write, and no help.)
type follower struct {
	table   string
	own     func() uint32 // our socket's port
	touched bool          // the transaction being read concerns our table

	first, last time.Time // drift that is not reported yet; first zero: none
}

func (f *follower) drifted(now time.Time) {
	if f.first.IsZero() {
		f.first = now
	}
	f.last = now
}

// due is when drift is to be reported; zero: there is none.
func (f *follower) due() time.Time {
	if f.first.IsZero() {
		return time.Time{}
	}
	quiet, limit := f.last.Add(settle), f.first.Add(patience)
	if quiet.Before(limit) {
		return quiet
	}
	return limit
}

func (f *follower) read(messages []netlink.Message, now time.Time) {
	for _, m := range messages {
		f.touched = f.touched || f.concernsTable(m)
		if !endsTransaction(m) {
			continue
		}
		if f.touched && m.Header.PID != f.own() {
			f.drifted(now)
		}
		f.touched = false
	}
}

func endsTransaction(m netlink.Message) bool {
	return m.Header.Type == netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN)
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
