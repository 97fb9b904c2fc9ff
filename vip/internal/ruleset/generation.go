package ruleset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Generation is the kernel's count of committed transactions.
func (c *Conn) Generation(ctx context.Context) (uint32, error) {
	if err := c.bound(ctx); err != nil {
		return 0, err
	}
	replies, err := c.socket.Execute(generationRequest())
	if err != nil {
		return 0, fmt.Errorf("asking for the ruleset's generation: %w", err)
	}
	if len(replies) != 1 {
		return 0, fmt.Errorf("asking for the ruleset's generation: got %d replies", len(replies))
	}
	return parseGeneration(replies[0])
}

func generationRequest() netlink.Message {
	return netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN),
			Flags: netlink.Request,
		},
		Data: []byte{unix.NFPROTO_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	}
}

func parseGeneration(m netlink.Message) (uint32, error) {
	const header = 4 // struct nfgenmsg
	if len(m.Data) < header {
		return 0, errors.New("decoding a ruleset generation: message too short")
	}
	ad, err := netlink.NewAttributeDecoder(m.Data[header:])
	if err != nil {
		return 0, fmt.Errorf("decoding a ruleset generation: %w", err)
	}
	ad.ByteOrder = binary.BigEndian
	var id uint32
	for ad.Next() {
		if ad.Type() == unix.NFTA_GEN_ID {
			id = ad.Uint32()
		}
	}
	if err := ad.Err(); err != nil {
		return 0, fmt.Errorf("decoding a ruleset generation: %w", err)
	}
	return id, nil
}
