package dataplane

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// holdTable keeps the kernel translating. Connections that a mode of the kernel
// has translated stay translated as long as there is any chain of type nat, and
// a rule that asks for connection tracking; a mode that proxies by itself has
// neither. The table has one of each, which do nothing else.
const holdTable = "signpost-hold"

// hold makes the table, or leaves it.
func hold() error {
	return changeHold(func(conn *nftables.Conn, table *nftables.Table) {
		chain := conn.AddChain(&nftables.Chain{
			Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
		})
		conn.FlushChain(chain) // one that an earlier process has left
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Ct{Register: 1, Key: expr.CtKeySTATE}}})
	})
}

// letGo removes the table, if it is there.
func letGo() error {
	// Adding first makes the deletion succeed whether or not it exists.
	return changeHold(func(conn *nftables.Conn, table *nftables.Table) { conn.DelTable(table) })
}

func changeHold(change func(*nftables.Conn, *nftables.Table)) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("opening a netlink socket: %w", err)
	}
	table := conn.AddTable(&nftables.Table{Name: holdTable, Family: nftables.TableFamilyINet})
	change(conn, table)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("changing table %q: %w", holdTable, err)
	}
	return nil
}
