package nftables

import (
	"context"
	"testing"
	"time"

	nft "github.com/google/nftables"

	"signpost/vip/internal/ruleset"
	"signpost/vip/viptest"
)

// watched follows a backend's notifications in the test's namespace. Its end
// is the test's.
func watched(t *testing.T, b *Backend) <-chan struct{} {
	t.Helper()
	changes, err := ruleset.Subscribe(tableName)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	drifts, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- changes.Follow(ctx, b.port.Load, func() { drifts <- struct{}{} }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("watching: %v", err)
		}
	})
	return drifts
}

// quietFor is how long nothing must be reported.
const quietFor = 700 * time.Millisecond

// X02 X03: what others do to the table is reported; what they do to their own,
// and what we do ourselves, is not.
func TestWatch(t *testing.T) {
	viptest.InNamespace(t)
	b := newBackend(t)
	drifts := watched(t, b)
	silent := func(what string) {
		t.Helper()
		select {
		case <-drifts:
			t.Errorf("%s: reported as drift", what)
		case <-time.After(quietFor):
		}
	}
	reported := func(what string) {
		t.Helper()
		select {
		case <-drifts:
		case <-time.After(2 * time.Second):
			t.Errorf("%s: not reported within two seconds", what)
		}
	}

	small, large := worldOf(t, smallWorld), worldOf(t, largeWorld)
	mustApply(t, b, nil, small)
	mustApply(t, b, small, large)
	mustApply(t, b, large, small)
	silent("our own writes")

	other := mustConn(t)
	foreign := other.AddTable(&nft.Table{Name: "foreign", Family: nft.TableFamilyINet})
	other.AddChain(&nft.Chain{Name: tableName, Table: foreign})
	mustFlush(t, other)
	silent("another table")

	table := &nft.Table{Name: tableName, Family: nft.TableFamilyINet}
	other.FlushChain(&nft.Chain{Name: preroutingChain, Table: table})
	mustFlush(t, other)
	reported("a chain flushed")

	other.FlushRuleset()
	mustFlush(t, other)
	reported("everything flushed")

	mustApply(t, b, nil, large)
	silent("our own repair")
}
