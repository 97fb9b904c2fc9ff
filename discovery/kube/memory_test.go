package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"testing"

	"signpost/discovery"
	"signpost/integration/apistub"
)

// bigList is the text of a list that nobody holds: objects are written one by
// one. At its end, before the closing bracket, end is called.
type bigList struct {
	kind, version string
	objects       int
	object        func(i int) apistub.Object
	end           func()

	at      int
	pending bytes.Buffer
}

func (l *bigList) Read(p []byte) (int, error) {
	if l.pending.Len() == 0 {
		switch {
		case l.at == 0:
			fmt.Fprintf(&l.pending, `{"kind":%q,"apiVersion":"x","metadata":{"resourceVersion":%q},"items":[`, l.kind, l.version)
		case l.at <= l.objects:
			o := l.object(l.at - 1)
			o.SetUID("4cf5e5a6-6e5c-4c39-a7c1-0123456789ab")
			o.SetResourceVersion(strconv.Itoa(l.at))
			o.SetAnnotations(map[string]string{"description": "what the model doesn't keep: " + o.GetName()})
			text, err := json.Marshal(o)
			if err != nil {
				return 0, err
			}
			if l.at > 1 {
				l.pending.WriteByte(',')
			}
			l.pending.Write(text)
		case l.at == l.objects+1:
			l.end()
			l.pending.WriteString("]}")
		default:
			return 0, io.EOF
		}
		l.at++
	}
	return l.pending.Read(p)
}

func bigService(i int) apistub.Object {
	return apistub.Service("ns-"+strconv.Itoa(i%50), "service-"+strconv.Itoa(i), fmt.Sprintf("10.96.%d.%d", i/250, i%250))
}

func bigSlice(i int) apistub.Object {
	addresses := make([]string, 10)
	for j := range addresses {
		addresses[j] = fmt.Sprintf("10.%d.%d.%d", 100+j, i/250, i%250)
	}
	s := apistub.Slice("ns-"+strconv.Itoa(i%50), "service-"+strconv.Itoa(i), "service-"+strconv.Itoa(i)+"-abcde", addresses...)
	for j := range s.Endpoints {
		node, zone := "node-"+strconv.Itoa((i+j)%100), "zone-"+strconv.Itoa(j%3)
		s.Endpoints[j].NodeName, s.Endpoints[j].Zone = &node, &zone
	}
	return s
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// L6, case A38: a relist holds little beside what is there already.
func TestRelistMemory(t *testing.T) {
	const services = 2000
	cfg := Config{}.withDefaults()
	store := discovery.NewStore()
	w := newWorld(&cfg, newHealth(cfg.Log, "test", nil))
	var most uint64
	deliver := func(tb *table, object func(int) apistub.Object) {
		f := &fetcher{table: tb}
		list := &itemList{}
		from := &bigList{kind: tb.resource.kind + "List", version: "7", objects: services, object: object, end: func() { most = max(most, heap()) }}
		if err := f.decode(from, list); err != nil {
			t.Fatal(err)
		}
		all := make([]any, len(list.Items))
		for i, item := range list.Items {
			all[i] = item
		}
		if err := tb.Replace(all, "7"); err != nil {
			t.Fatal(err)
		}
	}
	both := func() {
		deliver(w.tables[0], bigService)
		deliver(w.tables[1], bigSlice)
		store.Update(func(tx *discovery.Tx) { w.apply(tx) })
	}
	before := heap()
	both()
	steady := heap() - before
	revision := store.Current().Revision
	most = 0
	both()
	peak := most - before
	t.Logf("%d services with 10 endpoints each: %.1f KiB a service, relist peak %.2f of it",
		services, float64(steady)/services/1024, float64(peak)/float64(steady))
	if float64(peak) > 1.5*float64(steady) {
		t.Errorf("relist peak %d of %d bytes", peak, steady)
	}
	if v := store.Current(); v.Revision != revision || v.Services.Len() != services {
		t.Errorf("a relist of the same is revision %d after %d, with %d services", v.Revision, revision, v.Services.Len())
	}
	runtime.KeepAlive(w)
}

// BenchmarkDecode reads a list of 1,000 slices of 10 endpoints.
func BenchmarkDecode(b *testing.B) {
	var text bytes.Buffer
	if _, err := io.Copy(&text, &bigList{kind: "EndpointSliceList", version: "7", objects: 1000, object: bigSlice, end: func() {}}); err != nil {
		b.Fatal(err)
	}
	cfg := Config{}.withDefaults()
	f := &fetcher{table: newWorld(&cfg, newHealth(cfg.Log, "test", nil)).tables[1]}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if err := f.decode(bytes.NewReader(text.Bytes()), &itemList{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkChange publishes a change of one service among 10,000.
func BenchmarkChange(b *testing.B) {
	cfg := Config{}.withDefaults()
	store := discovery.NewStore()
	w := newWorld(&cfg, newHealth(cfg.Log, "test", nil))
	put := func(tb *table, o apistub.Object, version int) {
		o.SetResourceVersion(strconv.Itoa(version))
		if err := tb.Add(tb.resource.item(o, nil)); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 10_000 {
		put(w.tables[0], bigService(i), i)
		put(w.tables[1], bigSlice(i), i)
	}
	store.Update(func(tx *discovery.Tx) { w.apply(tx) })
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s := bigSlice(i % 10_000)
		b.StopTimer()
		s.(interface{ SetName(string) }).SetName("more-" + strconv.Itoa(i%3))
		b.StartTimer()
		put(w.tables[1], s, i)
		store.Update(func(tx *discovery.Tx) { w.apply(tx) })
	}
}
