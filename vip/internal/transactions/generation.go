package transactions

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Generation asks over a socket of NETLINK_NETFILTER for the number of
// transactions that nf_tables has committed.
func Generation(socket *netlink.Conn) (uint32, error) {
	replies, err := socket.Execute(Request())
	if err != nil {
		return 0, fmt.Errorf("asking for the ruleset's generation: %w", err)
	}
	for _, m := range replies {
		if id, ok := GenerationOf(m); ok {
			return id, nil
		}
	}
	return 0, errors.New("asking for the ruleset's generation: no answer")
}

// Request is the message that asks for the generation.
func Request() netlink.Message {
	return netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN),
			Flags: netlink.Request,
		},
		Data: []byte{unix.NFPROTO_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	}
}

// Ends reports whether a notification is the last one of its transaction.
func Ends(m netlink.Message) bool {
	return m.Header.Type == netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN)
}

// GenerationOf reads the generation that a transaction made, from the
// notification that [Ends] it.
func GenerationOf(m netlink.Message) (uint32, bool) {
	if !Ends(m) {
		return 0, false
	}
	a, err := Attributes(m)
	if err != nil {
		return 0, false
	}
	for a.Next() {
		if a.Type() == unix.NFTA_GEN_ID {
			return a.Uint32(), a.Err() == nil
		}
	}
	return 0, false
}

// Attributes decodes what follows a message's struct nfgenmsg.
func Attributes(m netlink.Message) (*netlink.AttributeDecoder, error) {
	const header = 4
	if len(m.Data) < header {
		return nil, errors.New("decoding an nf_tables message: too short")
	}
	a, err := netlink.NewAttributeDecoder(m.Data[header:])
	if err != nil {
		return nil, fmt.Errorf("decoding an nf_tables message: %w", err)
	}
	a.ByteOrder = binary.BigEndian
	return a, nil
}
