package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"signpost/discovery"
)

const (
	manyServices = 10_000
	perService   = 10
)

func serviceText(i int, selector bool) string {
	s := ""
	if selector {
		s = fmt.Sprintf("  selector:\n    app: app-%d\n    tier: backend\n", i)
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata:\n  name: service-%d\n  namespace: ns-%d\nspec:\n%s  ports:\n  - name: http\n    port: 80\n    targetPort: 8080\n", i, i%100, s)
}

func podAddress(i, j int) string {
	n := i*perService + j
	return fmt.Sprintf("10.%d.%d.%d", 128+n>>16, n>>8&255, n&255)
}

func podText(i, j int, ready string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: pod-%d-%d
  namespace: ns-%d
  labels:
    app: app-%d
    tier: backend
spec:
  nodeName: node-%d
  containers:
  - name: app
    image: registry/app:v1
    ports:
    - name: http
      containerPort: 8080
status:
  phase: Running
  podIP: %[6]s
  podIPs:
  - ip: %[6]s
  conditions:
  - type: Ready
    status: "%s"
`, i, j, i%100, i, j, podAddress(i, j), ready)
}

func sliceText(i int) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: service-%[1]d-abcde\n  namespace: ns-%[2]d\n  labels:\n    kubernetes.io/service-name: service-%[1]d\naddressType: IPv4\nports:\n- name: http\n  port: 8080\n  protocol: TCP\nendpoints:\n", i, i%100)
	for j := range perService {
		fmt.Fprintf(&b, "- addresses:\n  - %s\n  conditions:\n    ready: true\n  nodeName: node-%d\n", podAddress(i, j), j)
	}
	return b.String()
}

// bigCluster writes 100 files, one a namespace.
func bigCluster(t testing.TB, dir, format, kind string) {
	for ns := range 100 {
		var b bytes.Buffer
		add := func(text string) {
			if format == "json" {
				j, err := yaml.YAMLToJSON([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				_ = json.Indent(&out, j, "", "  ")
				b.Write(out.Bytes())
				b.WriteByte('\n')
				return
			}
			b.WriteString("---\n" + text)
		}
		for i := ns; i < manyServices; i += 100 {
			add(serviceText(i, kind == "pods"))
			if kind == "slices" {
				add(sliceText(i))
				continue
			}
			for j := range perService {
				add(podText(i, j, "True"))
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("ns-%d.%s", ns, format)), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func bigConfig(dir string) Config {
	return Config{
		Dir: dir, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
		StateFile: filepath.Join(filepath.Dir(dir), "allocations.yaml"),
	}
}

// BenchmarkStart: 10,000 services with 10 endpoints each, from nothing to a
// synced store.
func BenchmarkStart(b *testing.B) {
	for _, kind := range []string{"slices", "pods"} {
		for _, format := range []string{"yaml", "json"} {
			b.Run(kind+"/"+format, func(b *testing.B) {
				dir := filepath.Join(b.TempDir(), "cluster")
				if err := os.Mkdir(dir, 0o700); err != nil {
					b.Fatal(err)
				}
				bigCluster(b, dir, format, kind)
				b.ReportAllocs()
				for b.Loop() {
					before := cpuSeconds()
					e := startEngine(b, dir)
					b.StopTimer()
					b.ReportMetric(cpuSeconds()-before, "cpu-s")
					runtime.GC()
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB-live")
					runtime.KeepAlive(e)
					b.StartTimer()
				}
			})
		}
	}
}

// cpuSeconds is the processor time of this process so far: what counts on a
// machine that is busy with other things, too.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

type started struct {
	*engine
	store *discovery.Store
}

func startEngine(t testing.TB, dir string) started {
	s, err := New(bigConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	e := started{s.engine, discovery.NewStore()}
	paths, _ := e.look()
	e.accept(e.read(paths))
	if err := e.publish(e.store, true); err != nil {
		t.Fatal(err)
	}
	if n := e.store.Current().Services.Len(); n != manyServices {
		t.Fatalf("%d services", n)
	}
	return e
}

// BenchmarkOnePod: one pod of 100,000 becomes ready or not, from the changed
// file to the store's new revision.
func BenchmarkOnePod(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "cluster")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	bigCluster(b, dir, "yaml", "pods")
	path := filepath.Join(dir, "ns-7.yaml")
	ready, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	notReady := bytes.Replace(ready, []byte(podText(4207, 3, "True")), []byte(podText(4207, 3, "False")), 1)
	e := startEngine(b, dir)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		if err := os.WriteFile(path, [][]byte{ready, notReady}[n%2], 0o600); err != nil {
			b.Fatal(err)
		}
		before := e.store.Current().Revision
		cpu := cpuSeconds()
		b.StartTimer()
		e.accept(e.read([]string{path}))
		if err := e.publish(e.store, false); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(1000*(cpuSeconds()-cpu), "cpu-ms")
		if e.store.Current().Revision != before+1 {
			b.Fatal("nothing was published")
		}
	}
}

// BenchmarkServed: from the write of a file to the store's new revision, with
// notification, debouncing and all; 10,000 services, 100,000 pods.
func BenchmarkServed(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "cluster")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	bigCluster(b, dir, "json", "pods")
	s, err := New(bigConfig(dir))
	if err != nil {
		b.Fatal(err)
	}
	store := discovery.NewStore()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, store) }()
	if _, err := store.Wait(ctx, func(s *discovery.Snapshot) bool { return s.Synced }); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		want := []string{"True", "False"}[n%2]
		path := filepath.Join(dir, "extra.yaml")
		text := "---\n" + podText(4207, 99, want)
		before := store.Current().Revision
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		if _, err := store.Wait(ctx, func(s *discovery.Snapshot) bool { return s.Revision > before }); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
