package ruleset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Generation is the kernel's count of committed transactions, and who made the
// last one, as the kernel numbers processes.
type Generation struct{ ID, Process uint32 }

// Generation asks for the present one.
func (c *Conn) Generation(ctx context.Context) (Generation, error) {
	if err := c.bound(ctx); err != nil {
		return Generation{}, err
	}
	replies, err := c.socket.Execute(generationRequest())
	if err != nil {
		return Generation{}, fmt.Errorf("asking for the ruleset's generation: %w", err)
	}
	if len(replies) != 1 {
		return Generation{}, fmt.Errorf("asking for the ruleset's generation: got %d replies", len(replies))
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

func parseGeneration(m netlink.Message) (Generation, error) {
	const header = 4 // struct nfgenmsg
	if len(m.Data) < header {
		return Generation{}, errors.New("decoding a ruleset generation: message too short")
	}
	ad, err := netlink.NewAttributeDecoder(m.Data[header:])
	if err != nil {
		return Generation{}, fmt.Errorf("decoding a ruleset generation: %w", err)
	}
	ad.ByteOrder = binary.BigEndian
	var g Generation
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_GEN_ID:
			g.ID = ad.Uint32()
		case unix.NFTA_GEN_PROC_PID:
			g.Process = ad.Uint32()
		}
	}
	if err := ad.Err(); err != nil {
		return Generation{}, fmt.Errorf("decoding a ruleset generation: %w", err)
	}
	return g, nil
}
