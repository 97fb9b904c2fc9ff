package endpoints

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func manyPods(from, to int) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := from; i < to; i++ {
		pods = append(pods, newPod(fmt.Sprint("p", i), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)))
	}
	return pods
}

func sizes(all []*discoveryv1.EndpointSlice) []int {
	var out []int
	for _, s := range all {
		out = append(out, len(s.Endpoints))
	}
	slices.Sort(out)
	return out
}

// writes tells how many slices differ between two results.
func writes(before, after []*discoveryv1.EndpointSlice) (created, updated, deleted int) {
	old := map[string]*discoveryv1.EndpointSlice{}
	for _, s := range before {
		old[s.Name] = s
	}
	for _, s := range after {
		switch was := old[s.Name]; {
		case was == nil:
			created++
		case was != s:
			updated++
		}
		delete(old, s.Name)
	}
	return created, updated, len(old)
}

func TestPacking(t *testing.T) {
	t.Parallel()
	// Four full slices of 5; slice of position i holds pods i*5 .. i*5+4.
	o := Options{MaxPerSlice: 5}
	base := manyPods(0, 20)
	without := func(drop ...int) []*corev1.Pod {
		var pods []*corev1.Pod
		for i, p := range base {
			if !slices.Contains(drop, i) {
				pods = append(pods, p)
			}
		}
		return pods
	}
	cases := []struct {
		name                      string
		before, after             []*corev1.Pod
		created, updated, deleted int
		sizes                     []int
	}{
		{"nothing changes", base, base, 0, 0, 0, []int{5, 5, 5, 5}},
		{"one leaves", base, without(7), 0, 1, 0, []int{4, 5, 5, 5}},
		{"one comes, all full", base, manyPods(0, 21), 1, 0, 0, []int{1, 5, 5, 5, 5}},
		{"one comes, one has room", without(7), base, 0, 1, 0, []int{5, 5, 5, 5}},
		{"one for one fills the slice that changes anyhow", base, append(without(7), manyPods(30, 31)...), 0, 1, 0, []int{5, 5, 5, 5}},
		{"no slice has room for both: a new one", without(1, 7), append(without(1, 7), manyPods(30, 32)...), 1, 0, 0, []int{2, 4, 4, 5, 5}},
		{"a slice runs empty", base, without(5, 6, 7, 8, 9), 0, 0, 1, []int{5, 5, 5}},
		{"an emptied slice is used again", base, append(without(5, 6, 7, 8, 9), manyPods(30, 35)...), 0, 1, 0, []int{5, 5, 5, 5}},
		{"all leave: a placeholder", base, nil, 0, 1, 3, []int{0}},
		{"the placeholder is used again", nil, base[:3], 0, 1, 0, []int{3}},
		{"readiness of one", base, append(without(7), newPod("p7", "10.0.0.7", notReady)), 0, 1, 0, []int{5, 5, 5, 5}},
		{"another port at all: no delete", base[:5], []*corev1.Pod{newPod("p0", "10.0.0.0", httpPort(9))}, 0, 1, 0, []int{1}},
		{"no full repacking of small slices", without(1, 2, 3, 6, 7, 8), without(1, 2, 3, 6, 7, 8, 9), 0, 1, 0, nil},
	}
	for _, c := range cases {
		t.Run("E-09 "+c.name, func(t *testing.T) {
			t.Parallel()
			// All began with the full slices, so who left has left a place.
			before := o.Slices(newService(), c.before, nil, o.Slices(newService(), base, nil, nil))
			after := o.Slices(newService(), c.after, nil, before)
			created, updated, deleted := writes(before, after)
			if created != c.created || updated != c.updated || deleted != c.deleted {
				t.Errorf("created %d, updated %d, deleted %d; want %d, %d, %d", created, updated, deleted, c.created, c.updated, c.deleted)
			}
			if c.sizes != nil && !slices.Equal(sizes(after), c.sizes) {
				t.Errorf("sizes %v, want %v", sizes(after), c.sizes)
			}
		})
	}
}

func TestDefaultLimit(t *testing.T) {
	t.Parallel()
	if got := sizes(Options{}.Slices(newService(), manyPods(0, 250), nil, nil)); !slices.Equal(got, []int{50, 100, 100}) {
		t.Errorf("E-09 sizes %v", got)
	}
	before := Options{MaxPerSlice: 10}.Slices(newService(), manyPods(0, 10), nil, nil)
	if got := sizes(Options{MaxPerSlice: 4}.Slices(newService(), manyPods(0, 10), nil, before)); !slices.Equal(got, []int{2, 4, 4}) {
		t.Errorf("a lower limit: sizes %v", got)
	}
}

func TestOnlyOwnSlicesAreTouched(t *testing.T) {
	t.Parallel()
	svc, pods := newService(), manyPods(0, 3)
	own := Options{}.Slices(svc, pods, nil, nil)[0]
	foreign := map[string]func(*discoveryv1.EndpointSlice){
		"E-10 another manager":  func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "me" },
		"E-10 no manager":       func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelManagedBy) },
		"E-17 a mirror":         func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = MirrorManagedBy },
		"another service":       func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "db" },
		"another namespace":     func(s *discoveryv1.EndpointSlice) { s.Namespace = "other" },
		"one on its way out":    func(s *discoveryv1.EndpointSlice) { s.DeletionTimestamp = newPod("", "", leaving).DeletionTimestamp },
		"E-11 the other family": func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 },
	}
	for name, change := range foreign {
		s := own.DeepCopy()
		change(s)
		got := Options{}.Slices(svc, pods, nil, []*discoveryv1.EndpointSlice{nil, s})
		if len(got) != 1 || got[0] == s || got[0].Name == s.Name {
			t.Errorf("%s: taken as own, or its name reused: %q", name, got[0].Name)
		}
	}
}

func TestOutsideEditsAreUndone(t *testing.T) {
	t.Parallel()
	svc, pods := newService(), manyPods(0, 3)
	own := Options{}.Slices(svc, pods, nil, nil)
	edits := map[string]func(*discoveryv1.EndpointSlice){
		"label":      func(s *discoveryv1.EndpointSlice) { s.Labels["x"] = "y" },
		"annotation": func(s *discoveryv1.EndpointSlice) { s.Annotations = map[string]string{"x": "y"} },
		"owner":      func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil },
		"endpoint":   func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Hostname = new("x") },
		"twice":      func(s *discoveryv1.EndpointSlice) { s.Endpoints = append(s.Endpoints, s.Endpoints[0]) },
		"no address": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = nil },
	}
	for name, edit := range edits {
		s := own[0].DeepCopy()
		s.ResourceVersion = "7"
		edit(s)
		got := Options{}.Slices(svc, pods, nil, []*discoveryv1.EndpointSlice{s})
		if len(got) != 1 || got[0] == s || got[0].Name != s.Name || got[0].ResourceVersion != "7" || len(got[0].Endpoints) != 3 {
			t.Errorf("E-10 %s: %+v", name, got)
		}
	}
	s := own[0].DeepCopy()
	s.Endpoints[0].TargetRef.ResourceVersion = "9"
	if got := (Options{}).Slices(svc, pods, nil, []*discoveryv1.EndpointSlice{s}); got[0] != s {
		t.Error("E-14 a resource version of the target is a change")
	}
}

// FuzzSlices changes the pods at random and holds the incremental result
// against one from nothing.
func FuzzSlices(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 0x81, 0x82, 0xff, 3})
	f.Fuzz(func(t *testing.T, program []byte) {
		o, svc := Options{MaxPerSlice: 3}, newService(func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		})
		pods := map[string]*corev1.Pod{}
		var now []*discoveryv1.EndpointSlice
		for _, step := range program {
			fuzzStep(pods, step)
			before, list := now, slices.Collect(maps.Values(pods))
			now = o.Slices(svc, list, nil, before)
			checkPacked(t, now, o.MaxPerSlice)
			if got, want := endpointSet(now), endpointSet(o.Slices(svc, list, nil, nil)); !maps.Equal(got, want) {
				t.Fatalf("incremental: %v, from nothing: %v", got, want)
			}
			if again := o.Slices(svc, list, nil, now); !slices.Equal(again, now) {
				t.Fatal("a second run changes something")
			}
			// One pod is in one slice of each family, or moves between two.
			if created, updated, deleted := writes(before, now); before != nil && created+updated+deleted > 4 {
				t.Fatalf("one pod led to %d creates, %d updates, %d deletes", created, updated, deleted)
			}
		}
	})
}

func fuzzStep(pods map[string]*corev1.Pod, step byte) {
	n := step % 16
	name := fmt.Sprint("p", n)
	var changes []func(*corev1.Pod)
	switch step / 16 % 6 {
	case 0:
		delete(pods, name)
		return
	case 1:
		changes = append(changes, notReady)
	case 2:
		changes = append(changes, httpPort(9090))
	case 3:
		changes = append(changes, leaving)
	case 4:
		n /= 2 // address reuse
	}
	if step >= 128 {
		changes = append(changes, dualStack(fmt.Sprintf("fd00::%d", n)))
	}
	pods[name] = newPod(name, fmt.Sprintf("10.0.0.%d", n), changes...)
}

func checkPacked(t *testing.T, all []*discoveryv1.EndpointSlice, limit int) {
	t.Helper()
	names := map[string]bool{}
	families := map[discoveryv1.AddressType]int{}
	for _, s := range all {
		if names[s.Name] || len(s.Endpoints) > limit {
			t.Fatalf("slice %q twice or with %d endpoints", s.Name, len(s.Endpoints))
		}
		names[s.Name] = true
		families[s.AddressType]++
	}
	for _, s := range all {
		if len(s.Endpoints) == 0 && families[s.AddressType] > 1 {
			t.Fatalf("empty slice %q beside others", s.Name)
		}
	}
	if len(families) != 2 {
		t.Fatalf("families %v", families)
	}
}

func endpointSet(all []*discoveryv1.EndpointSlice) map[string]int {
	set := map[string]int{}
	for _, s := range all {
		for i := range s.Endpoints {
			set[fmt.Sprint(portsKey(s.Ports), " ", describeEndpoint(&s.Endpoints[i]), identityOf(&s.Endpoints[i]))]++
		}
	}
	return set
}

// BenchmarkSlices is one readiness change among the pods of a service.
func BenchmarkSlices(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint("pods=", n), func(b *testing.B) {
			svc, pods := newService(), manyPods(0, n)
			before := Options{}.Slices(svc, pods, nil, nil)
			changed := slices.Clone(pods)
			changed[n/2] = newPod(pods[n/2].Name, pods[n/2].Status.PodIP, notReady)
			b.ReportAllocs()
			for b.Loop() {
				if after := (Options{}).Slices(svc, changed, nil, before); after[0] == nil {
					b.Fatal("no slice")
				}
			}
		})
	}
}
