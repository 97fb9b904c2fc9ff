package discovery_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"signpost/discovery"
)

func Example() {
	store := discovery.NewStore()
	web := discovery.Key{Namespace: "default", Name: "web"}

	// A source writes; a consumer waits for what it needs.
	go store.Update(func(tx *discovery.Tx) {
		tx.PutService(&discovery.Service{
			Key:        web,
			ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.20")},
			Ports:      []discovery.Port{{Name: "http", Port: 80}},
		})
		tx.MarkSynced()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	first, err := store.Wait(ctx, func(s *discovery.Snapshot) bool { return s.Synced })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("revision", first.Revision, first.ServicesAt(netip.MustParseAddr("10.96.0.20")))

	// A view of the consumer's own, kept current for the keys that differ.
	describe := func(_ discovery.Key, s *discovery.Service) (string, bool) {
		return fmt.Sprintf("%s %d port(s)", s.Kind, len(s.Ports)), true
	}
	var nothing discovery.Map[*discovery.Service]
	view := discovery.Derive(discovery.Map[string]{}, nothing, first.Services, describe)

	second := store.Update(func(tx *discovery.Tx) {
		db := discovery.Key{Namespace: "default", Name: "db"}
		tx.PutService(&discovery.Service{Key: db, Kind: discovery.Headless})
	})
	discovery.Diff(first.Services, second.Services, func(k discovery.Key, before, after *discovery.Service) {
		fmt.Println("changed:", k, "is new:", before == nil)
	})
	view = discovery.Derive(view, first.Services, second.Services, describe)
	text, _ := view.Get(web)
	fmt.Println(view.Len(), "in the view; web:", text)

	// Output:
	// revision 1 [default/web]
	// changed: default/db is new: true
	// 2 in the view; web: ClusterIP 1 port(s)
}
