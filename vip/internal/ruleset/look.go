package ruleset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	nft "github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// attempts is how often a look is begun anew because somebody changed the
// ruleset meanwhile. Nothing is ever concluded from an incomplete look.
const attempts = 5

// Contents is what the kernel's table holds.
type Contents struct {
	// Usable is false if the table or one of its sets is missing or has another
	// shape: then the table has to be made anew, and the rest is empty.
	Usable     bool
	Generation uint32 // of the ruleset when it was read
	Elements   []Element
	// Chains are the labels of rules, by chain. One that hangs elsewhere than it
	// should is not in it.
	Chains map[string][]string
}

// Has reports whether a chain is there with just these rules.
func (c *Contents) Has(want Chain) bool {
	labels, exists := c.Chains[want.Name]
	return exists && slices.Equal(labels, want.Labels())
}

// BySlot returns the elements by what identifies them.
func (c *Contents) BySlot() map[Slot]Element {
	elements := make(map[Slot]Element, len(c.Elements))
	for _, e := range c.Elements {
		elements[e.Slot()] = e
	}
	return elements
}

// NewContents returns contents for a table that is not in a kernel.
func NewContents(usable bool, generation uint32, elements []Element, chains []Chain) *Contents {
	c := &Contents{Usable: usable, Generation: generation, Elements: elements, Chains: map[string][]string{}}
	for _, chain := range chains {
		c.Chains[chain.Name] = chain.Labels()
	}
	return c
}

// Look reads the table. Of the chains that should be there it wants to know
// where they hang: all others hang nowhere.
func (c *Conn) Look(ctx context.Context, chains []Chain) (*Contents, error) {
	for range attempts {
		before, err := c.Generation(ctx)
		if err != nil {
			return nil, err
		}
		found, err := c.lookOnce(chains)
		if err != nil && !interrupted(err) {
			return nil, err
		}
		after, genErr := c.Generation(ctx)
		if genErr != nil {
			return nil, genErr
		}
		if err == nil && before == after {
			found.Generation = after
			return found, nil
		}
	}
	return nil, fmt.Errorf("reading table %q: the ruleset changed %d times meanwhile", c.name, attempts)
}

// interrupted reports whether an error may come from a change during the look.
func interrupted(err error) bool {
	return errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOENT)
}

func (c *Conn) lookOnce(chains []Chain) (*Contents, error) {
	found := &Contents{Chains: map[string][]string{}}
	usable, err := c.usable()
	if err != nil || !usable {
		return found, err
	}
	if err := c.readChains(chains, found); err != nil {
		return nil, err
	}
	for _, s := range c.sets {
		if s.Limit > 0 {
			continue
		}
		if err := c.readSet(s, found); err != nil {
			return nil, err
		}
	}
	found.Usable = true
	return found, nil
}

// usable reports whether the table exists and works, with all its sets, each of
// the expected shape.
func (c *Conn) usable() (bool, error) {
	tables, err := c.conn.ListTablesOfFamily(nft.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("listing nftables tables: %w", err)
	}
	works := func(t *nft.Table) bool { return t.Name == c.name && t.Flags == 0 } // not put to sleep ("flags dormant")
	if !slices.ContainsFunc(tables, works) {
		return false, nil
	}
	return c.sameSets()
}

func (c *Conn) sameSets() (bool, error) {
	present, err := c.conn.GetSets(c.handle)
	if err != nil {
		return false, fmt.Errorf("listing the sets of table %q: %w", c.name, err)
	}
	byName := map[string]*nft.Set{}
	for _, s := range present {
		byName[s.Name] = s
	}
	for _, s := range c.sets {
		if !sameShape(byName[s.Name], c.describe(s)) {
			return false, nil
		}
	}
	return len(present) == len(c.sets), nil
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

func (c *Conn) readChains(known []Chain, found *Contents) error {
	chains, err := c.conn.ListChainsOfTableFamily(nft.TableFamilyINet)
	if err != nil {
		return fmt.Errorf("listing the chains of table %q: %w", c.name, err)
	}
	for _, present := range chains {
		if present.Table.Name != c.name || !chainOf(known, present.Name).hangs(present) {
			continue
		}
		rules, err := c.conn.GetRules(c.handle, present)
		if err != nil {
			return fmt.Errorf("listing the rules of chain %q: %w", present.Name, err)
		}
		labels := make([]string, len(rules))
		for i, r := range rules {
			labels[i], _ = userdata.GetString(r.UserData, userdata.TypeComment)
		}
		found.Chains[present.Name] = labels
	}
	return nil
}

func chainOf(known []Chain, name string) Chain {
	if i := slices.IndexFunc(known, func(c Chain) bool { return c.Name == name }); i >= 0 {
		return known[i]
	}
	return Chain{Name: name}
}

func (c *Conn) readSet(s *Set, found *Contents) error {
	elements, err := c.conn.GetSetElements(c.describe(s))
	if err != nil {
		return fmt.Errorf("reading set %q: %w", s.Name, err)
	}
	found.Elements = slices.Grow(found.Elements, len(elements))
	for i := range elements {
		found.Elements = append(found.Elements, decode(s, &elements[i]))
	}
	return nil
}

// Remembered lists what packets have put in a set that they fill. What it lists
// may have expired since.
func (c *Conn) Remembered(ctx context.Context, s *Set) ([]Element, error) {
	if err := c.bound(ctx); err != nil {
		return nil, err
	}
	found := &Contents{}
	err := c.readSet(s, found)
	return found.Elements, err
}

func decode(s *Set, raw *nft.SetElement) Element {
	e := Element{Set: s, Key: string(raw.Key), Last: string(raw.KeyEnd)}
	if s.Verdicts() {
		e.Chain = verdictChain(raw.Val)
	} else {
		e.Value = string(raw.Val)
	}
	return e
}

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
