package dnsserver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"signpost/discovery"
	"signpost/discovery/convert"
	"signpost/discovery/endpoints"
)

// world is a set of manifests, decoded.
type world struct {
	services   []*corev1.Service
	endpoints  map[discovery.Key]*corev1.Endpoints //nolint:staticcheck // people still write them by hand
	slices     map[discovery.Key][]*discoveryv1.EndpointSlice
	pods       []*corev1.Pod
	nodes      map[string]*corev1.Node
	namespaces []*corev1.Namespace
}

// readWorld decodes YAML documents. It does with them what a folder of
// manifests does: defaults, no validation.
func readWorld(t testing.TB, manifests []byte) *world {
	t.Helper()
	w := &world{
		endpoints: map[discovery.Key]*corev1.Endpoints{}, //nolint:staticcheck // see above
		slices:    map[discovery.Key][]*discoveryv1.EndpointSlice{},
		nodes:     map[string]*corev1.Node{},
	}
	for doc := range bytes.SplitSeq(append([]byte("\n"), manifests...), []byte("\n---")) {
		var head metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatalf("reading manifest: %v\n%s", err, doc)
		}
		w.add(t, head.Kind, doc)
	}
	return w
}

func (w *world) add(t testing.TB, kind string, doc []byte) {
	t.Helper()
	switch kind {
	case "":
	case "Service":
		svc := decode[corev1.Service](t, doc)
		convert.Options{Families: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}}.Default(svc)
		w.services = append(w.services, svc)
	case "Endpoints":
		e := decode[corev1.Endpoints](t, doc) //nolint:staticcheck // see above
		w.endpoints[keyOf(e)] = e
	case "EndpointSlice":
		s := decode[discoveryv1.EndpointSlice](t, doc)
		k := discovery.Key{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
		w.slices[k] = append(w.slices[k], s)
	case "Pod":
		w.pods = append(w.pods, decode[corev1.Pod](t, doc))
	case "Node":
		n := decode[corev1.Node](t, doc)
		w.nodes[n.Name] = n
	case "Namespace":
		w.namespaces = append(w.namespaces, decode[corev1.Namespace](t, doc))
	default:
		t.Fatalf("unknown kind %q", kind)
	}
}

func decode[T any](t testing.TB, doc []byte) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict(doc, obj); err != nil {
		t.Fatalf("decoding manifest: %v\n%s", err, doc)
	}
	return obj
}

func keyOf(o metav1.Object) discovery.Key {
	return discovery.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// publish makes the store hold this world and nothing else.
func (w *world) publish(store *discovery.Store) *discovery.Snapshot {
	return store.Update(func(tx *discovery.Tx) {
		before := store.Current()
		for k := range before.Services.All() {
			tx.DeleteService(k)
		}
		for k := range before.Pods.All() {
			tx.DeletePod(k)
		}
		for ns := range before.Namespaces {
			tx.DeleteNamespace(ns)
		}
		for _, svc := range w.services {
			s, _ := convert.Service(svc, w.slicesOf(svc))
			tx.PutService(s)
		}
		for _, pod := range w.pods {
			tx.PutPod(convert.Pod(pod))
		}
		for _, ns := range w.namespaces {
			tx.PutNamespaceLabels(ns.Name, ns.Labels)
		}
	})
}

// slicesOf returns the slices that a cluster would have for a service: those
// in the manifests and those that its controllers make.
func (w *world) slicesOf(svc *corev1.Service) []*discoveryv1.EndpointSlice {
	list := slices.Clone(w.slices[keyOf(svc)])
	if eps := w.endpoints[keyOf(svc)]; eps != nil && len(svc.Spec.Selector) == 0 {
		list = append(list, endpoints.Mirror(svc, eps, nil)...)
	}
	var pods []*corev1.Pod
	for _, p := range w.pods {
		if p.Namespace == svc.Namespace {
			pods = append(pods, p)
		}
	}
	return append(list, endpoints.Options{}.Slices(svc, pods, w.nodes, nil)...)
}

// fakeUpstream is everyone else's DNS: fixed records, and names that fail.
type fakeUpstream struct {
	records   []dns.RR
	servfail  map[string]bool
	refused   map[string]bool
	truncated map[string]bool
}

// resolve is a [Resolver].
func (u *fakeUpstream) resolve(_ context.Context, q dns.Question, _ *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg).SetQuestion(q.Name, q.Qtype)
	m.Truncated = u.truncated[q.Name]
	switch {
	case u.refused[q.Name]:
		m.Rcode = dns.RcodeRefused
		return m, nil
	case u.servfail[q.Name]:
		return nil, errors.New("upstream is down")
	}
	exists := false
	var soa dns.RR
	for _, rr := range u.records {
		h := rr.Header()
		switch {
		case h.Rrtype == dns.TypeSOA && dns.IsSubDomain(h.Name, q.Name):
			soa = rr
		case h.Name == strings.ToLower(q.Name):
			exists = true
			if h.Rrtype == q.Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
	}
	if !exists {
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 && soa != nil {
		m.Ns = append(m.Ns, soa)
	}
	return m, nil
}

// ServeDNS makes the upstream a handler, as forward is one.
func (u *fakeUpstream) ServeDNS(w dns.ResponseWriter, req *dns.Msg) {
	got, err := u.resolve(context.Background(), req.Question[0], req)
	m := new(dns.Msg).SetReply(req)
	if err != nil {
		m.Rcode = dns.RcodeServerFailure
	} else {
		m.Rcode, m.Truncated, m.Answer, m.Ns = got.Rcode, got.Truncated, got.Answer, got.Ns
	}
	_ = w.WriteMsg(m)
}

// recorder is a client: it keeps the reply.
type recorder struct {
	dns.ResponseWriter
	msg *dns.Msg
}

func (r *recorder) WriteMsg(m *dns.Msg) error { r.msg = m; return nil }
func (r *recorder) RemoteAddr() net.Addr      { return &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// ask sends a question through a handler.
func ask(h dns.Handler, name, qtype string) *dns.Msg {
	w := &recorder{}
	req := new(dns.Msg).SetQuestion(name, typeOf(qtype))
	req.Id = 1
	h.ServeDNS(w, req)
	return w.msg
}

// typeOf reads a type by name or as TYPE65280.
func typeOf(name string) uint16 {
	if t, ok := dns.StringToType[name]; ok {
		return t
	}
	rr, err := dns.NewRR(". IN " + name + ` \# 0`)
	if err != nil {
		panic("unknown type " + name)
	}
	return rr.Header().Rrtype
}

// newTestCluster returns zones with a serial of 1 over an empty store.
func newTestCluster(t testing.TB, c ClusterConfig) (*Cluster, *discovery.Store) {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	store := discovery.NewStore()
	cluster := NewCluster(c, store, slog.New(slog.DiscardHandler))
	cluster.view.Store(newView(cluster.conf, 1))
	return cluster, store
}

// clusterOf returns zones that serve the manifests, synced.
func clusterOf(t testing.TB, c ClusterConfig, manifests string) (*Cluster, *discovery.Store) {
	t.Helper()
	cluster, store := newTestCluster(t, c)
	store.Update((*discovery.Tx).MarkSynced)
	cluster.update(readWorld(t, []byte(manifests)).publish(store))
	return cluster, store
}

// show writes a reply as transcripts have it.
func show(m *dns.Msg) string {
	var b strings.Builder
	b.WriteString(dns.RcodeToString[m.Rcode])
	flags := map[string]bool{"aa": m.Authoritative, "ra": m.RecursionAvailable, "tc": m.Truncated, "ad": m.AuthenticatedData}
	for _, f := range slices.Sorted(maps.Keys(flags)) {
		if flags[f] {
			b.WriteString(" " + f)
		}
	}
	b.WriteString("\n")
	for _, section := range []struct {
		name    string
		records []dns.RR
	}{{"answer", m.Answer}, {"authority", m.Ns}, {"additional", m.Extra}} {
		for _, rr := range section.records {
			b.WriteString(section.name + "\t" + rr.String() + "\n")
		}
	}
	return b.String()
}
