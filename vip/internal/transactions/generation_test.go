package transactions

import (
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const seventh = "\x00\x00\x00\x00\x08\x00\x01\x00\x00\x00\x00\x07"

func message(kind uint16, data string) netlink.Message {
	return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind)}, Data: []byte(data)}
}

func TestGenerationOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		message netlink.Message
		want    uint32
		ok      bool
	}{
		{"the end of a transaction", message(unix.NFT_MSG_NEWGEN, seventh), 7, true},
		{"an object", message(unix.NFT_MSG_NEWSET, seventh), 0, false},
		{"no attribute", message(unix.NFT_MSG_NEWGEN, seventh[:4]), 0, false},
		{"nothing", message(unix.NFT_MSG_NEWGEN, ""), 0, false},
		{"half a number", message(unix.NFT_MSG_NEWGEN, "\x00\x00\x00\x00\x06\x00\x01\x00\x00\x07\x00\x00"), 0, false},
	} {
		if got, ok := GenerationOf(test.message); got != test.want || ok != test.ok {
			t.Errorf("%s: got %d, %t, want %d, %t", test.name, got, ok, test.want, test.ok)
		}
	}
}

// Messages of any kind and length are read without a panic.
func FuzzGenerationOf(f *testing.F) {
	f.Add(uint16(unix.NFT_MSG_NEWGEN), seventh)
	f.Fuzz(func(t *testing.T, kind uint16, data string) {
		m := message(kind&0xff, data)
		if _, ok := GenerationOf(m); ok && !Ends(m) {
			t.Errorf("a message of kind %d has a generation", kind)
		}
	})
}
