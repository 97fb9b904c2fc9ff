package ruleset

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip/internal/transactions"
)

// patience is how long others who don't leave the table alone are waited for.
const patience = time.Second

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

// Subscription hears of every transaction.
type Subscription struct {
	table         string
	notifications *transactions.Notifications
}

// Subscribe begins to listen, in the calling thread's network namespace, to
// what is done to a table. It has to be followed.
func Subscribe(table string) (*Subscription, error) {
	n, err := transactions.Listen()
	if err != nil {
		return nil, err
	}
	return &Subscription{table, n}, nil
}

// Follow is the rest of [Watch]. It closes the socket.
func (s *Subscription) Follow(ctx context.Context, port func() uint32, drift func()) error {
	return s.notifications.Follow(ctx, &follower{table: s.table, own: port}, drift)
}

// follower is a [transactions.Listener] to what others do to one table.
type follower struct {
	table   string
	own     func() uint32 // our socket's port
	touched bool          // the transaction being read concerns our table

	first, last time.Time // drift that is not reported yet; first zero: none
}

// Missed takes what was missed for drift.
func (f *follower) Missed(now time.Time) { f.drifted(now) }

// Judge has nothing to weigh: what is others' was told when it was read.
func (f *follower) Judge(context.Context) bool {
	f.first = time.Time{}
	return true
}

func (f *follower) drifted(now time.Time) {
	if f.first.IsZero() {
		f.first = now
	}
	f.last = now
}

// Due is when drift is to be reported; zero: there is none.
func (f *follower) Due() time.Time {
	if f.first.IsZero() {
		return time.Time{}
	}
	quiet, limit := f.last.Add(transactions.Settle), f.first.Add(patience)
	if quiet.Before(limit) {
		return quiet
	}
	return limit
}

// Read notes what others did.
func (f *follower) Read(messages []netlink.Message, now time.Time) {
	for _, m := range messages {
		f.touched = f.touched || f.concernsTable(m)
		if !transactions.Ends(m) {
			continue
		}
		if f.touched && m.Header.PID != f.own() {
			f.drifted(now)
		}
		f.touched = false
	}
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
