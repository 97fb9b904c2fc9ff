package lab

import (
	"context"
	"net"
	"testing"
	"time"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// A first packet that is lost is counted, and one that arrives is not.
func TestRetransmissions(t *testing.T) {
	l := build(t, Default(false), Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	count := func() uint32 {
		t.Helper()
		c, err := l.Dial(ctx, "pod-a", "tcp", "172.16.85.11:80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		n, err := Retransmissions(c)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("%d retransmissions where nothing is lost", n)
	}
	table := &nft.Table{Name: "lossy", Family: nft.TableFamilyINet}
	if err := l.RunIn("node-a", func() error { return loseOne(table) }); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 1 {
		t.Errorf("%d retransmissions of a first packet that is lost once", n)
	}
	if _, err := Retransmissions(&net.UDPConn{}); err == nil {
		t.Error("of UDP: want an error")
	}
}

// loseOne drops the first packet of a connection that passes, and only one:
// others may be on their way, such as the end of a connection before.
func loseOne(table *nft.Table) error {
	conn, err := nft.New()
	if err != nil {
		return err
	}
	conn.AddTable(table)
	chain := conn.AddChain(&nft.Chain{
		Name: "forward", Table: table, Type: nft.ChainTypeFilter,
		Hooknum: nft.ChainHookForward, Priority: nft.ChainPriorityFilter,
	})
	const reg, tcp, flags, synAndACK, syn = 1, 6, 13, 0x12, 0x02
	conn.AddRule(&nft.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{tcp}},
		&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: flags, Len: 1},
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 1, Mask: []byte{synAndACK}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{syn}},
		&expr.Limit{Type: expr.LimitTypePkts, Rate: 1, Unit: expr.LimitTimeDay, Burst: 1},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	return conn.Flush()
}
