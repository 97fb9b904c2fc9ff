package nftables

import (
	"context"
	"errors"
	"testing"
	"time"

	nft "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip/viptest"
)

// watched follows a backend's notifications in the test's namespace. Its end
// is the test's.
func watched(t *testing.T, b *Backend) <-chan struct{} {
	t.Helper()
	socket, err := subscribe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	drifts, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- b.follow(ctx, socket, func() { drifts <- struct{}{} }) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(socket.SetReadDeadline(time.Unix(1, 0)), <-ended, socket.Close()); err != nil {
			t.Errorf("watching: %v", err)
		}
	})
	return drifts
}

// quietFor is how long nothing must be reported.
const quietFor = settle + 400*time.Millisecond

// X02 X03: what others do to the table is reported; what they do to their own,
// and what we do ourselves, is not.
func TestWatch(t *testing.T) {
	viptest.InNamespace(t)
	b := newBackend(t)
	drifts := watched(t, b)
	silent := func(what string) {
		t.Helper()
		select {
		case <-drifts:
			t.Errorf("%s: reported as drift", what)
		case <-time.After(quietFor):
		}
	}
	reported := func(what string) {
		t.Helper()
		select {
		case <-drifts:
		case <-time.After(2 * time.Second):
			t.Errorf("%s: not reported within two seconds", what)
		}
	}

	small, large := worldOf(t, smallWorld), worldOf(t, largeWorld)
	mustApply(t, b, nil, small)
	mustApply(t, b, small, large)
	mustApply(t, b, large, small)
	silent("our own writes")

	other := mustConn(t)
	foreign := other.AddTable(&nft.Table{Name: "foreign", Family: nft.TableFamilyINet})
	other.AddChain(&nft.Chain{Name: tableName, Table: foreign})
	mustFlush(t, other)
	silent("another table")

	table := &nft.Table{Name: tableName, Family: nft.TableFamilyINet}
	other.FlushChain(&nft.Chain{Name: preroutingChain, Table: table})
	mustFlush(t, other)
	reported("a chain flushed")

	other.FlushRuleset()
	mustFlush(t, other)
	reported("everything flushed")

	mustApply(t, b, nil, large)
	silent("our own repair")
}

// B63: a flush in steps is one drift, reported when it is over, but not waited
// for without end; what others do to their tables delays nothing.
func TestFollowerWaits(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	own := newBackend(t)
	own.port.Store(7)
	ours := notification(8, tableName)
	for _, test := range []struct {
		name  string
		times []time.Duration // of a stranger's transactions
		read  []netlink.Message
		due   time.Duration // 0: never
	}{
		{"one", []time.Duration{0}, ours, settle},
		{"two steps", []time.Duration{0, 200 * time.Millisecond}, ours, 200*time.Millisecond + settle},
		{"without end", []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond, 990 * time.Millisecond}, ours, patience},
		{"another table", []time.Duration{0}, notification(8, "signposts"), 0},
		{"ourselves", []time.Duration{0}, notification(7, tableName), 0},
	} {
		f := follower{own: &own.port}
		for _, at := range test.times {
			f.read(test.read, start.Add(at))
			f.read(notification(9, "foreign"), start.Add(at))
		}
		want := time.Time{}
		if test.due > 0 {
			want = start.Add(test.due)
		}
		if got := f.due(); !got.Equal(want) {
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
	f.Fuzz(func(t *testing.T, kind uint16, data []byte) {
		b := newBackend(t)
		m := netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind&0xff), PID: 1}, Data: data}
		w := follower{own: &b.port}
		w.read([]netlink.Message{m}, time.Now())
		_, _ = parseGeneration(m)
	})
}
