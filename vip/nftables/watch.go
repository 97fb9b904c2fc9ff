package nftables

import (
	"context"

	"signpost/vip/internal/ruleset"
)

// Watch implements [vip.Watcher]: it reports transactions of others that touch
// the table.
func (b *Backend) Watch(ctx context.Context, drift func()) error {
	return ruleset.Watch(ctx, tableName, b.port.Load, drift)
}
