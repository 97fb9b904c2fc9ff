package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Cleanup implements [vip.Backend]: it removes our chains and the jumps into
// them, in both variants and both families; whatever is missing is fine (T-10).
func (b *Backend) Cleanup(ctx context.Context) error {
	b.applying.Store(true)
	defer b.applying.Store(false)
	var errs []error
	for _, f := range []*family{ip4, ip6} {
		for _, tool := range b.tools(f) {
			if err := tool.cleanup(ctx); err != nil {
				errs = append(errs, fmt.Errorf("cleaning up iptables for %s: %w", f.name(), err))
			}
		}
	}
	b.forget()
	return errors.Join(errs...)
}

// tools finds all of a family's commands: where none bears a variant's name, it
// is the plain ones.
func (b *Backend) tools(f *family) []*tool {
	var list []*tool
	for _, v := range []variant{nftVariant, legacyVariant} {
		if t, err := locate(b.run, f, v, false); err == nil {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		if t, err := locate(b.run, f, nftVariant, true); err == nil {
			list = append(list, t)
		}
	}
	return list
}

// forget drops what is known of the tables, and of our own writes.
func (b *Backend) forget() {
	for _, p := range b.planes {
		if p != nil {
			p.ledger, p.stuck = nil, nil
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settled, b.own = stamp{}, nil
}

// cleanup removes what one variant's tables of one family hold of ours. It
// looks at all tables at once, which makes none that isn't there.
func (t *tool) cleanup(ctx context.Context) error {
	text, err := t.dumpAll(ctx)
	var e *toolError
	if errors.As(err, &e) && (strings.Contains(e.stderr, "Protocol not supported") || strings.Contains(e.stderr, "Table does not exist")) {
		return nil // the kernel has nothing of this kind
	}
	if err != nil {
		return err
	}
	parts := byTable(text)
	for _, name := range tables { // filter first: it would refuse what nat no longer translates
		f, err := parse(parts[name])
		if err != nil {
			return fmt.Errorf("reading table %q: %w", name, err)
		}
		lines := f.repairs(nil)
		names := slices.Sorted(maps.Keys(f.chains))
		if len(names)+len(lines) == 0 {
			continue
		}
		if err := t.write(ctx, removal(name, names, lines).end()); err != nil {
			return err
		}
	}
	return nil
}
