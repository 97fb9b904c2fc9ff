package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"signpost/integration/apistub"
)

// change is something that happens in a cluster, and what a name answers
// before and after it.
type change struct {
	kind          string
	before, after []apistub.Object // those that differ
	anew          bool             // deleted and made again
	name          string           // to ask for, fully qualified
	was, is       netip.Addr       // invalid: the name doesn't exist
}

// The kinds, as the table calls them.
const (
	endpointReplaced = "endpoint replaced"
	serviceAnew      = "Service made anew"
	nameAppears      = "name appears"
)

// changes makes one change of each kind, to objects of their own for each n
// below 64.
func changes(n int) []change {
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 96, 254, byte(4*n + i)}) }
	was, is, appeared := addr(0), addr(1), addr(2)
	qname := func(name string) string { return name + ".ns-0.svc.cluster.local." }
	service := func(name, ip string) apistub.Object {
		s := apistub.Service("ns-0", name, ip)
		s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
		return s
	}
	slice := func(name string, ip netip.Addr) apistub.Object {
		s := apistub.Slice("ns-0", name, name+"-1", ip.String())
		s.SetGroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
		return s
	}
	headless, anew, appears := fmt.Sprintf("endpoint-%d", n), fmt.Sprintf("anew-%d", n), fmt.Sprintf("appears-%d", n)
	return []change{
		{
			kind: endpointReplaced, name: qname(headless), was: was, is: is,
			before: []apistub.Object{service(headless, corev1.ClusterIPNone), slice(headless, was)},
			after:  []apistub.Object{slice(headless, is)},
		},
		{
			kind: serviceAnew, name: qname(anew), was: was, is: is, anew: true,
			before: []apistub.Object{service(anew, was.String())},
			after:  []apistub.Object{service(anew, is.String())},
		},
		{
			kind: nameAppears, name: qname(appears), is: appeared,
			after: []apistub.Object{service(appears, appeared.String())},
		},
	}
}

// put brings objects into both sources: an event of the API, a file of the
// folder that is there as a whole or not at all.
func (b *bench) put(objects ...apistub.Object) error {
	b.api.Put(objects...)
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("writing a manifest: %w", err)
		}
		temporary := filepath.Join(b.dir, fmt.Sprintf("%s-%s", o.GetObjectKind().GroupVersionKind().Kind, o.GetName()))
		if err := os.WriteFile(temporary, text, 0o644); err != nil {
			return fmt.Errorf("writing a manifest: %w", err)
		}
		if err := os.Rename(temporary, filepath.Join(b.dir, "manifests", filepath.Base(temporary)+".json")); err != nil {
			return fmt.Errorf("writing a manifest: %w", err)
		}
	}
	return nil
}

// make makes the change. In a folder an object is made anew by its file's being
// replaced.
func (b *bench) make(c change) error {
	if c.anew {
		b.api.Delete(c.before...)
	}
	return b.put(c.after...)
}
