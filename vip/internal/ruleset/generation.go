package ruleset

import (
	"context"

	"signpost/vip/internal/transactions"
)

// Generation is the kernel's count of committed transactions.
func (c *Conn) Generation(ctx context.Context) (uint32, error) {
	if err := c.bound(ctx); err != nil {
		return 0, err
	}
	return transactions.Generation(c.socket)
}
