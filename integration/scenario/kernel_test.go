package scenario

import (
	"testing"

	nft "github.com/google/nftables"
)

// flushRuleset does what "nft flush ruleset" does.
func flushRuleset() error {
	conn, err := nft.New()
	if err != nil {
		return err
	}
	conn.FlushRuleset()
	return conn.Flush()
}

// tables lists the nftables tables of the first node.
func (c *cluster) tables(t *testing.T) []string {
	t.Helper()
	var names []string
	err := c.RunIn("node-a", func() error {
		conn, err := nft.New()
		if err != nil {
			return err
		}
		tables, err := conn.ListTables()
		for _, table := range tables {
			names = append(names, table.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
