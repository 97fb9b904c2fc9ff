package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"signpost/discovery"
	"signpost/vip"
)

// View is what the server holds at one moment.
type View struct {
	Desired *discovery.Snapshot
	// Plan and Applied are the dataplane's states; nil without a dataplane and
	// before the first plan.
	Plan, Applied *vip.State
	// Records returns the records of the services that the filter chooses; each
	// names its service, and one that belongs to a zone has no namespace.
	Records func(context.Context, Filter) ([]Record, error)
	Status  Status
	// Diff compares the plan with the dataplane; nil without a plan.
	Diff func(context.Context) ([]vip.Difference, error)
	// Wait returns once there may be a newer view, or the context ends.
	Wait func(context.Context)
}

// Filter chooses objects; an empty field chooses all.
type Filter struct{ Namespace, Name string }

// item is one object of a listing.
type item struct {
	namespace, name, id string // id tells objects of one name apart
	object              any
}

// resources maps a name to what lists its objects.
var resources = map[string]func(context.Context, *View, Filter) ([]item, error){
	Services:       all(services),
	Endpoints:      all(endpoints),
	Pods:           all(pods),
	Records:        records,
	VirtualServers: all(func(v *View) []item { return virtualServers(v.Plan, v.Applied) }),
}

// all lists everything and filters afterwards.
func all(list func(*View) []item) func(context.Context, *View, Filter) ([]item, error) {
	return func(_ context.Context, v *View, f Filter) ([]item, error) { return choose(list(v), f), nil }
}

func services(v *View) []item {
	list := make([]item, 0, v.Desired.Services.Len())
	for k, s := range v.Desired.Services.All() {
		list = append(list, item{k.Namespace, k.Name, "", serviceObject(s)})
	}
	return list
}

// endpoints lists an object for each service that can have endpoints.
func endpoints(v *View) []item {
	list := make([]item, 0, v.Desired.Services.Len())
	for k, s := range v.Desired.Services.All() {
		if s.Kind != discovery.ExternalName {
			list = append(list, item{k.Namespace, k.Name, "", endpointsObject(s)})
		}
	}
	return list
}

func pods(v *View) []item {
	list := make([]item, 0, v.Desired.Pods.Len())
	for k, p := range v.Desired.Pods.All() {
		list = append(list, item{k.Namespace, k.Name, "", podObject(p)})
	}
	return list
}

// records are expensive to list: the filter goes to the source of them.
func records(ctx context.Context, v *View, f Filter) ([]item, error) {
	found, err := v.Records(ctx, f)
	if err != nil {
		return nil, err
	}
	list := make([]item, len(found))
	for i := range found {
		r := &found[i]
		r.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: "Record"}
		list[i] = item{r.Namespace, r.Name, fmt.Sprint(r.Owner, " ", r.Type, " ", r.Data), r}
	}
	return choose(list, f), nil
}

// virtualServers lists a plan. With a known applied state each server tells
// whether it is in it.
func virtualServers(plan, applied *vip.State) []item {
	if plan == nil {
		return nil
	}
	list := make([]item, 0, plan.Len())
	for server := range plan.All() {
		object := virtualServerObject(server)
		for _, loser := range plan.Losers(server.Frontend) {
			object.Losers = append(object.Losers, loser.Owner.String())
		}
		if applied != nil {
			isApplied := server.Equal(applied.Get(server.Frontend))
			object.Applied = &isApplied
		}
		list = append(list, item{server.Owner.Namespace, server.Owner.Name, object.Frontend, object})
	}
	return list
}

// PlanList lists a plan's virtual servers without a server.
func PlanList(plan *vip.State, f Filter) (*List, error) {
	return newList(choose(virtualServers(plan, nil), f), 0)
}

// choose returns the items that the filter lets through, in order. Virtual
// servers of one service keep the order of their frontends.
func choose(items []item, f Filter) []item {
	items = slices.DeleteFunc(items, func(i item) bool {
		return (f.Namespace != "" && i.namespace != f.Namespace) || (f.Name != "" && i.name != f.Name)
	})
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return items
}

func newList(items []item, revision uint64) (*List, error) {
	list := &List{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"},
		Metadata: metav1.ListMeta{ResourceVersion: fmt.Sprint(revision)},
		Items:    make([]json.RawMessage, len(items)),
	}
	for i, one := range items {
		text, err := json.Marshal(one.object)
		if err != nil {
			return nil, fmt.Errorf("encoding %s/%s: %w", one.namespace, one.name, err)
		}
		list.Items[i] = text
	}
	return list, nil
}
