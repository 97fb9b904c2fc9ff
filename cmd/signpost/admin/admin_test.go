package admin

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signpost/discovery"
	"signpost/vip"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func service(name, addr string) *discovery.Service {
	s := &discovery.Service{
		Key:   discovery.Key{Namespace: "default", Name: name},
		Ports: []discovery.Port{{Name: "http", Port: 80, TargetPort: "8080"}},
	}
	if addr != "" {
		s.ClusterIPs = []netip.Addr{netip.MustParseAddr(addr)}
	}
	return s
}

// serve runs the API over a store on a socket and returns a client.
func serve(t *testing.T, store *discovery.Store) *Client {
	t.Helper()
	address := "unix://" + filepath.Join(t.TempDir(), "admin.sock")
	listener, err := Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	view := func() *View {
		snapshot := store.Current()
		plan := vip.Planner{}.Plan(snapshot, &vip.Node{Name: "n1"})
		return &View{
			Desired: snapshot, Plan: plan, Applied: plan, Status: Status{Revision: snapshot.Revision, Mode: "fake"},
			Records: func(_ context.Context, f Filter) ([]Record, error) {
				return []Record{{Owner: f.Name + ".", Type: "A", TTL: 5, Data: "10.96.0.80"}}, nil
			},
			Wait: func(ctx context.Context) {
				select {
				case <-ctx.Done():
				case <-store.Changed(snapshot.Revision):
				}
			},
		}
	}
	server := &http.Server{Handler: Handler(view), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	client, err := NewClient(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); _ = server.Close(); <-done })
	return client
}

func names(t *testing.T, items []json.RawMessage) string {
	t.Helper()
	var list []string
	for _, item := range items {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := json.Unmarshal(item, &object); err != nil {
			t.Fatal(err)
		}
		list = append(list, object.Kind+"/"+object.Metadata.Name)
	}
	return strings.Join(list, " ")
}

func TestList(t *testing.T) {
	store := discovery.NewStore()
	store.Update(func(tx *discovery.Tx) {
		tx.PutService(service("web", "10.96.0.80"))
		tx.PutService(service("db", ""))
		other := service("web", "10.96.0.81")
		other.Key.Namespace = "other"
		tx.PutService(other)
		tx.PutService(&discovery.Service{Key: discovery.Key{Namespace: "default", Name: "docs"}, Kind: discovery.ExternalName, Type: discovery.TypeExternalName})
		tx.PutPod(&discovery.Pod{Key: discovery.Key{Namespace: "default", Name: "web-1"}, Ready: true})
	})
	client := serve(t, store)
	tests := []struct {
		name, resource string
		filter         Filter
		want           string
	}{
		{"of a namespace, sorted", Services, Filter{Namespace: "default"}, "Service/db Service/docs Service/web"},
		{"of all namespaces", Services, Filter{}, "Service/db Service/docs Service/web Service/web"},
		{"by name", Services, Filter{Namespace: "default", Name: "db"}, "Service/db"},
		{"missing", Services, Filter{Namespace: "default", Name: "nope"}, ""},
		{"endpoints have no aliases", Endpoints, Filter{Namespace: "default"}, "Endpoints/db Endpoints/web"},
		{"pods", Pods, Filter{}, "Pod/web-1"},
		{"virtual servers", VirtualServers, Filter{Namespace: "default"}, "VirtualServer/web"},
		{"records", Records, Filter{}, "Record/"},
	}
	for _, tt := range tests {
		list, err := client.List(t.Context(), tt.resource, tt.filter)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(t, list.Items); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if _, err := client.List(t.Context(), "secrets", Filter{}); err == nil || !strings.Contains(err.Error(), `doesn't have a resource type "secrets"`) {
		t.Errorf("unknown resource: %v", err)
	}
	status, err := client.Status(t.Context())
	if err != nil || status.Revision != 1 || status.Mode != "fake" {
		t.Errorf("status %+v, %v", status, err)
	}
}

func TestWatch(t *testing.T) {
	store := discovery.NewStore()
	store.Update(func(tx *discovery.Tx) { tx.PutService(service("web", "10.96.0.80")) })
	client := serve(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := []struct {
		want string
		next func(*discovery.Tx) // makes the event after it
	}{
		{"ADDED Service/web", nil},
		{"BOOKMARK /", func(tx *discovery.Tx) { tx.PutService(service("db", "")) }},
		{"ADDED Service/db", func(tx *discovery.Tx) { tx.PutService(service("db", "10.96.0.81")) }},
		{"MODIFIED Service/db", func(tx *discovery.Tx) { tx.DeleteService(discovery.Key{Namespace: "default", Name: "web"}) }},
		{"DELETED Service/web", nil},
	}
	err := client.Watch(ctx, Services, Filter{Namespace: "default"}, func(e Event) error {
		step := steps[0]
		steps = steps[1:]
		if got := e.Type + " " + names(t, []json.RawMessage{e.Object}); got != step.want {
			t.Errorf("event %q, want %q", got, step.want)
		}
		if step.next != nil {
			store.Update(step.next)
		}
		if len(steps) == 0 {
			cancel()
		}
		return nil
	})
	if err != nil || len(steps) != 0 {
		t.Errorf("error %v, %d events are missing", err, len(steps))
	}
}

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	first, err := Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: want 0600", info.Mode(), err)
	}
	if _, err := Listen(t.Context(), "unix://"+path); err == nil || !strings.Contains(err.Error(), "another server answers there") {
		t.Errorf("beside a live server: %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as a killed process leaves it
	_ = first.Close()
	second, err := Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatalf("after a dead server: %v", err)
	}
	_ = second.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix://"+path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("over a file: %v", err)
	}
	for _, address := range []string{"", "unix://", "tcp://127.0.0.1:1"} {
		if _, err := Listen(t.Context(), address); err == nil || !strings.Contains(err.Error(), "must be unix://PATH") {
			t.Errorf("address %q: %v", address, err)
		}
	}
}

func TestNoServer(t *testing.T) {
	client, err := NewClient("unix://" + filepath.Join(t.TempDir(), "nobody"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "is signpost serve running?") {
		t.Errorf("error %v", err)
	}
}

func TestServiceObject(t *testing.T) {
	t.Parallel()
	s := service("lb", "10.96.0.80")
	s.Type, s.Ingress = discovery.TypeLoadBalancer, []string{"203.0.113.1", "lb.example.org"}
	s.Affinity = discovery.Affinity{ClientIP: true, Timeout: time.Hour}
	s.ExternalIPs = []netip.Addr{netip.MustParseAddr("192.0.2.7")}
	s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	text, err := json.Marshal(serviceObject(s))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"clusterIP":"10.96.0.80"`, `"type":"LoadBalancer"`, `"timeoutSeconds":3600`, `"targetPort":8080`,
		`"ingress":[{"ip":"203.0.113.1"},{"hostname":"lb.example.org"}]`, `"externalTrafficPolicy":"Cluster"`,
		`"loadBalancerSourceRanges":["198.51.100.0/24"]`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("lacks %s: %s", want, text)
		}
	}
	headless := service("db", "")
	headless.Kind = discovery.Headless
	if got := serviceObject(headless).Spec.ClusterIP; got != "None" {
		t.Errorf("headless: clusterIP %q", got)
	}
}
