package nftables

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	nft "github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip"
)

// attempts is how often a look is begun anew because somebody changed the
// ruleset meanwhile. Nothing is ever concluded from an incomplete look.
const attempts = 5

// look reads the table. It is usable if its sets and base chains have the
// shape that this version makes; otherwise, and if there is no table, the
// contents are empty.
func (k *kernel) look(ctx context.Context) (found *contents, usable bool, err error) {
	for range attempts {
		if err := k.bound(ctx); err != nil {
			return nil, false, err
		}
		before, err := k.generation()
		if err != nil {
			return nil, false, err
		}
		found, usable, err = k.lookOnce()
		if err != nil && !interrupted(err) {
			return nil, false, err
		}
		after, genErr := k.generation()
		if genErr != nil {
			return nil, false, genErr
		}
		if err == nil && before == after {
			found.generation = after
			return found, usable, nil
		}
	}
	return nil, false, fmt.Errorf("reading table %q: the ruleset changed %d times meanwhile", tableName, attempts)
}

// interrupted reports whether an error may come from a change during the look.
func interrupted(err error) bool {
	return errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOENT)
}

func (k *kernel) lookOnce() (*contents, bool, error) {
	usable, err := k.usable()
	if err != nil || !usable {
		return newContents(), false, err
	}
	found := newContents()
	if err := k.readChains(found); err != nil {
		return nil, false, err
	}
	for _, s := range allSets {
		if s.dynamic {
			continue
		}
		if err := k.readSet(s, found); err != nil {
			return nil, false, err
		}
	}
	found.order()
	return found, true, nil
}

// usable reports whether the table exists and works, with all its sets, each of
// the expected shape.
func (k *kernel) usable() (bool, error) {
	tables, err := k.conn.ListTablesOfFamily(nft.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("listing nftables tables: %w", err)
	}
	for _, t := range tables {
		if t.Name == tableName && t.Flags == 0 { // not put to sleep ("flags dormant")
			return k.sameSets()
		}
	}
	return false, nil
}

func (k *kernel) sameSets() (bool, error) {
	present, err := k.conn.GetSets(k.table)
	if err != nil {
		return false, fmt.Errorf("listing the sets of table %q: %w", tableName, err)
	}
	byName := map[string]*nft.Set{}
	for _, s := range present {
		byName[s.Name] = s
	}
	for _, s := range allSets {
		if !sameShape(byName[s.name], k.set(s)) {
			return false, nil
		}
	}
	return len(present) == len(allSets), nil
}

func sameShape(present, want *nft.Set) bool {
	if present == nil {
		return false
	}
	verdicts := want.IsMap && want.DataType.Bytes == 0
	return present.Interval == want.Interval && present.IsMap == want.IsMap &&
		present.Dynamic == want.Dynamic && present.Concatenation == want.Concatenation &&
		(verdicts || present.KeyType.Bytes == want.KeyType.Bytes && present.DataType.Bytes == want.DataType.Bytes)
}

func (k *kernel) readChains(found *contents) error {
	chains, err := k.conn.ListChainsOfTableFamily(nft.TableFamilyINet)
	if err != nil {
		return fmt.Errorf("listing the chains of table %q: %w", tableName, err)
	}
	for _, c := range chains {
		if c.Table.Name != tableName || !k.rightHook(c) {
			continue
		}
		rules, err := k.conn.GetRules(k.table, c)
		if err != nil {
			return fmt.Errorf("listing the rules of chain %q: %w", c.Name, err)
		}
		comments := make([]string, len(rules))
		for i, r := range rules {
			comments[i], _ = userdata.GetString(r.UserData, userdata.TypeComment)
		}
		found.chains[c.Name] = comments
	}
	return nil
}

// rightHook reports whether a chain hangs where this version hangs it.
func (k *kernel) rightHook(c *nft.Chain) bool {
	want := k.chain(c.Name)
	if want.Hooknum == nil || c.Hooknum == nil {
		return want.Hooknum == nil && c.Hooknum == nil
	}
	return *want.Hooknum == *c.Hooknum && c.Priority != nil && *want.Priority == *c.Priority && want.Type == c.Type
}

func (k *kernel) readSet(s *set, found *contents) error {
	elements, err := k.conn.GetSetElements(k.set(s))
	if err != nil {
		return fmt.Errorf("reading set %q: %w", s.name, err)
	}
	for i := range elements {
		e := decode(s, &elements[i])
		if f, ok := e.frontend(); ok {
			found.entry(f).own = append(found.entry(f).own, e)
		} else {
			found.shared[e.slot()] = true
		}
	}
	return nil
}

func (c *contents) entry(f vip.Frontend) *entry {
	if c.entries[f] == nil {
		c.entries[f] = &entry{}
	}
	return c.entries[f]
}

// order rebuilds the layouts from the endpoint maps.
func (c *contents) order() {
	for _, e := range c.entries {
		cluster, local := map[uint32]netip.AddrPort{}, map[uint32]netip.AddrPort{}
		for _, el := range e.own {
			switch s := setsOf[el.set.family]; el.set {
			case s.endpoints:
				el.place(cluster)
			case s.localEndpoints:
				el.place(local)
			}
		}
		e.layout = layout{placed(cluster), placed(local)}
	}
}

// place notes at which index an element of an endpoint map stands.
func (e element) place(at map[uint32]netip.AddrPort) {
	if ap, ok := e.set.family.parseEndpoint(e.value); ok && len(e.key) >= 4 {
		at[binary.NativeEndian.Uint32([]byte(e.key[len(e.key)-4:]))] = ap
	}
}

func decode(s *set, raw *nft.SetElement) element {
	e := element{set: s, key: string(raw.Key), last: string(raw.KeyEnd)}
	if s.verdicts() {
		e.chain = verdictChain(raw.Val)
	} else {
		e.value = string(raw.Val)
	}
	return e
}

func (s *set) verdicts() bool { return s.data != nil && s.data[0] == nft.TypeVerdict }

// verdictChain reads the chain out of an encoded verdict.
func verdictChain(raw []byte) string {
	attrs, err := netlink.UnmarshalAttributes(raw)
	if err != nil {
		return ""
	}
	for _, a := range attrs {
		if a.Type&^unix.NLA_F_NESTED == unix.NFTA_VERDICT_CHAIN && len(a.Data) > 0 {
			return string(a.Data[:len(a.Data)-1])
		}
	}
	return ""
}

// frontend returns the frontend that an element belongs to, if it belongs to one.
func (e element) frontend() (vip.Frontend, bool) {
	f := e.set.family
	s := setsOf[f]
	switch e.set {
	case s.clusterIPs, s.hairpin, s.nodePortAddrs:
		return vip.Frontend{}, false
	case s.nodePorts:
		return parseProtocolPort(vip.NodePortFrontend(f == ip6, 0, 0).Addr, e.key)
	default:
		return f.parseFrontend(e.key)
	}
}

// generation is the kernel's count of committed transactions.
func (k *kernel) generation() (uint32, error) {
	replies, err := k.socket.Execute(generationRequest())
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
