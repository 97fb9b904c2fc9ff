package kube

import (
	"strings"
	"testing"
)

// FuzzDecode reads any bytes as a list: nothing panics, and a list that is
// accepted has a resource version, was whole, and converts.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		"", "null", "[]", `{"kind":"EndpointSliceList"}`,
		`{"kind":"EndpointSliceList","metadata":{"resourceVersion":"7"},"items":null}`,
		`{"kind":"EndpointSliceList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","namespace":"b","labels":{"kubernetes.io/service-name":"c"}},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],"targetRef":{}}],"ports":[{"port":1}]}]}`,
		`{"items":[{"endpoints":[{"addresses":[]}]}],"metadata":{"resourceVersion":"7","continue":"x"}}`,
	} {
		f.Add(text)
	}
	cfg := Config{}.withDefaults()
	f.Fuzz(func(t *testing.T, text string) {
		w := newWorld(&cfg, newHealth(cfg.Log, "test", nil))
		list := &itemList{}
		err := (&fetcher{table: w.tables[1]}).decode(strings.NewReader(text), list)
		if err != nil {
			return
		}
		if list.ResourceVersion == "" {
			t.Errorf("accepted %q", text)
		}
		for _, i := range list.Items {
			if err := w.tables[1].Add(i); err != nil {
				t.Error(err)
			}
		}
	})
}
