package conformance_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	nft "github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/integration/conformance"
	"signpost/vip"
	"signpost/vip/nftables"
)

func TestNftables(t *testing.T) {
	conformance.Run(t, conformance.Suite{
		New:    func(conformance.Host) vip.Backend { return nftables.New(slog.New(slog.DiscardHandler)) },
		Dump:   dumpNftables,
		Writes: nftablesGeneration,
		Breakages: []conformance.Breakage{
			{Name: "X02 nft flush ruleset", Do: damage(func(conn *nft.Conn, _ *nft.Table) { conn.FlushRuleset() })},
			{Name: "X02 nft delete table", Do: damage(func(conn *nft.Conn, table *nft.Table) { conn.DelTable(table) })},
			{Name: "X03 nft flush table", Do: damage(func(conn *nft.Conn, table *nft.Table) { conn.FlushTable(table) })},
			{Name: "X03 nft flush chain", Do: damage(func(conn *nft.Conn, table *nft.Table) {
				conn.FlushChain(&nft.Chain{Name: "nat-prerouting", Table: table})
			})},
			{Name: "X03 nft flush map", Do: damage(func(conn *nft.Conn, table *nft.Table) {
				conn.FlushSet(&nft.Set{Name: "ip4-services", Table: table})
			})},
			{Name: "X03 nft delete element", Do: deleteElement},
			{Name: "B63 a flush in two steps", Do: func() error {
				err := damage(func(conn *nft.Conn, table *nft.Table) { conn.FlushTable(table) })()
				<-time.After(200 * time.Millisecond) // as a firewall's reload does it
				return errors.Join(err, damage(func(conn *nft.Conn, _ *nft.Table) { conn.FlushRuleset() })())
			}},
		},
	})
}

// damage does something to signpost's table, as another program.
func damage(do func(conn *nft.Conn, table *nft.Table)) func() error {
	return func() error {
		conn, err := nft.New()
		if err != nil {
			return err
		}
		do(conn, &nft.Table{Name: "signpost", Family: nft.TableFamilyINet})
		return conn.Flush()
	}
}

// deleteElement deletes one endpoint.
func deleteElement() error {
	conn, err := nft.New()
	if err != nil {
		return err
	}
	set, err := conn.GetSetByName(&nft.Table{Name: "signpost", Family: nft.TableFamilyINet}, "ip4-endpoints")
	if err != nil {
		return err
	}
	elements, err := conn.GetSetElements(set)
	if err != nil || len(elements) == 0 {
		return errors.Join(err, errors.New("deleting an element: there is none"))
	}
	if err := conn.SetDeleteElements(set, elements[:1]); err != nil {
		return err
	}
	return conn.Flush()
}

// dumpNftables lists tables, chains with what their rules say of themselves (a
// fingerprint included), and the elements of sets. The order of a server's
// endpoints means nothing, and what packets put into a set is not signpost's.
func dumpNftables() (string, error) {
	conn, err := nft.New()
	if err != nil {
		return "", err
	}
	tables, err := conn.ListTables()
	if err != nil {
		return "", err
	}
	var lines []string
	for _, table := range tables {
		chains, err := dumpChains(conn, table)
		if err != nil {
			return "", err
		}
		sets, err := dumpSets(conn, table)
		if err != nil {
			return "", err
		}
		lines = append(lines, slices.Concat(chains, sets)...)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

func dumpChains(conn *nft.Conn, table *nft.Table) ([]string, error) {
	chains, err := conn.ListChainsOfTableFamily(table.Family)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, c := range chains {
		if c.Table.Name != table.Name {
			continue
		}
		rules, err := conn.GetRules(table, c)
		if err != nil {
			return nil, err
		}
		line := fmt.Sprintf("%s chain %s:", table.Name, c.Name)
		for _, r := range rules {
			comment, _ := userdata.GetString(r.UserData, userdata.TypeComment)
			line += fmt.Sprintf(" [%s, %d parts]", comment, len(r.Exprs))
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func dumpSets(conn *nft.Conn, table *nft.Table) ([]string, error) {
	sets, err := conn.GetSets(table)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, s := range sets {
		lines = append(lines, fmt.Sprintf("%s set %s", table.Name, s.Name))
		if s.Dynamic {
			continue
		}
		elements, err := conn.GetSetElements(s)
		if err != nil {
			return nil, err
		}
		for _, e := range elements {
			key := e.Key
			if strings.HasSuffix(s.Name, "endpoints") {
				key = key[:len(key)-4] // the index
			}
			lines = append(lines, fmt.Sprintf("%s set %s: %x-%x = %x", table.Name, s.Name, key, e.KeyEnd, e.Val))
		}
	}
	return lines, nil
}

// nftablesGeneration is the kernel's count of transactions.
func nftablesGeneration() (uint64, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	answers, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
		Data:   []byte{unix.NFPROTO_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	})
	if err != nil {
		return 0, err
	}
	if len(answers) != 1 || len(answers[0].Data) < 4 {
		return 0, errors.New("asking for the ruleset's generation: no answer")
	}
	attributes, err := netlink.NewAttributeDecoder(answers[0].Data[4:])
	if err != nil {
		return 0, err
	}
	attributes.ByteOrder = binary.BigEndian
	for attributes.Next() {
		if attributes.Type() == unix.NFTA_GEN_ID {
			return uint64(attributes.Uint32()), nil
		}
	}
	return 0, attributes.Err()
}
