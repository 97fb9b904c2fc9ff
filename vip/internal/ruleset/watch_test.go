package ruleset

import (
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip/internal/transactions"
)

// B63: a flush in steps is one drift, reported when it is over, but not waited
// for without end; what others do to their tables delays nothing.
func TestFollowerWaits(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	const table = "signpost"
	ours := notification(8, table)
	for _, test := range []struct {
		name  string
		times []time.Duration // of a stranger's transactions
		read  []netlink.Message
		due   time.Duration // 0: never
	}{
		{"one", []time.Duration{0}, ours, transactions.Settle},
		{"two steps", []time.Duration{0, 200 * time.Millisecond}, ours, 200*time.Millisecond + transactions.Settle},
		{"without end", []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond, 990 * time.Millisecond}, ours, patience},
		{"another table", []time.Duration{0}, notification(8, table+"s"), 0},
		{"ourselves", []time.Duration{0}, notification(7, table), 0},
	} {
		f := follower{table: table, own: func() uint32 { return 7 }}
		for _, at := range test.times {
			f.Read(test.read, start.Add(at))
			f.Read(notification(9, "foreign"), start.Add(at))
		}
		want := time.Time{}
		if test.due > 0 {
			want = start.Add(test.due)
		}
		if got := f.Due(); !got.Equal(want) {
			t.Errorf("%s: due at %s, want %s", test.name, got, want)
		}
	}
}

// notification is a transaction of one object of a table, by a socket's port.
func notification(port uint32, table string) []netlink.Message {
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.NFTA_SET_TABLE, Data: []byte(table + "\x00")}})
	if err != nil {
		panic(err)
	}
	header := func(kind uint16) netlink.Header {
		return netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), PID: port}
	}
	return []netlink.Message{
		{Header: header(unix.NFT_MSG_NEWSET), Data: append(make([]byte, 4), attributes...)},
		{Header: header(unix.NFT_MSG_NEWGEN), Data: make([]byte, 4)},
	}
}

func FuzzNotification(f *testing.F) {
	f.Add(uint16(unix.NFT_MSG_NEWSET), []byte("\x01\x00\x00\x00\x0d\x00\x01\x00signpost\x00"))
	f.Add(uint16(unix.NFT_MSG_NEWGEN), []byte{})
	f.Fuzz(func(_ *testing.T, kind uint16, data []byte) {
		m := netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind&0xff), PID: 1}, Data: data}
		w := follower{table: "signpost", own: func() uint32 { return 7 }}
		w.Read([]netlink.Message{m}, time.Now())
	})
}
