package probe

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"signpost/discovery"
)

// checkOnce runs one real check, through the same way as a pod's.
func checkOnce(t *testing.T, handler corev1.ProbeHandler, address string, ports ...corev1.ContainerPort) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c := &corev1.Container{Ports: ports, ReadinessProbe: &corev1.Probe{ProbeHandler: handler}}
	return newNetwork().check(ctx, targetOf(c, address))
}

func split(t *testing.T, address string) (host string, port int32) {
	t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return host, int32(n)
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// webServer answers by path; /echo answers 200 only if the request looks as
// the test wants.
func webServer(t *testing.T, echo func(*http.Request) bool) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	for _, status := range []int{200, 204, 399, 400, 404, 503} {
		mux.HandleFunc(fmt.Sprint("/", status), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	redirects := map[string]string{"/to-good": "/200", "/to-bad": "/503", "/loop": "/loop", "/away": "http://elsewhere.invalid/503"}
	for from, to := range redirects {
		mux.HandleFunc(from, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
	}
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			if _, err := w.Write(make([]byte, 10<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		if !echo(r) {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	return mux
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(webServer(t, func(r *http.Request) bool {
		return r.Header.Get("X-A") == "1" && r.Host == "pod.test" && r.URL.RawQuery == "q=1" &&
			strings.HasPrefix(r.UserAgent(), "kube-probe/") && r.Header.Get("Accept") == "*/*"
	}))
	t.Cleanup(plain.Close)
	host, port := split(t, plain.Listener.Addr().String())
	headers := []corev1.HTTPHeader{{Name: "x-a", Value: "1"}, {Name: "Host", Value: "pod.test"}}
	cases := []struct {
		name   string
		action corev1.HTTPGetAction
		want   string // part of the error; empty: success
	}{
		{"200", corev1.HTTPGetAction{Path: "/200"}, ""},
		{"204", corev1.HTTPGetAction{Path: "/204"}, ""},
		{"399", corev1.HTTPGetAction{Path: "/399"}, ""},
		{"400", corev1.HTTPGetAction{Path: "/400"}, "400"},
		{"503", corev1.HTTPGetAction{Path: "/503"}, "503"},
		{"path without a slash", corev1.HTTPGetAction{Path: "200"}, ""},
		{"no path", corev1.HTTPGetAction{}, "404"},
		{"path that is no URL", corev1.HTTPGetAction{Path: "/%zz"}, "404"},
		{"redirect on the same host", corev1.HTTPGetAction{Path: "/to-good"}, ""},
		{"redirect to a failure on the same host", corev1.HTTPGetAction{Path: "/to-bad"}, "503"},
		{"redirect to another host is not followed", corev1.HTTPGetAction{Path: "/away"}, ""},
		{"redirects without end", corev1.HTTPGetAction{Path: "/loop"}, "stopping after 10 redirects"},
		{"body without end", corev1.HTTPGetAction{Path: "/huge"}, ""},
		{"headers, host and query", corev1.HTTPGetAction{Path: "/echo?q=1", HTTPHeaders: headers}, ""},
		{"without the headers", corev1.HTTPGetAction{Path: "/echo?q=1"}, "418"},
		{"another host to connect to", corev1.HTTPGetAction{Path: "/200", Host: "localhost.invalid"}, "localhost.invalid"},
		{"HTTPS to a plain server", corev1.HTTPGetAction{Path: "/200", Scheme: corev1.URISchemeHTTPS}, "HTTP"},
		{"a scheme that there is not", corev1.HTTPGetAction{Path: "/200", Scheme: "GOPHER"}, "gopher"},
		{"HTTP/2 to a server without", corev1.HTTPGetAction{Path: "/200", Protocol: new(corev1.HTTPProtocolHTTP2)}, "HTTP"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.action.Port = intstr.FromInt32(port)
			expect(t, checkOnce(t, corev1.ProbeHandler{HTTPGet: &c.action}, host), c.want)
		})
	}
}

// expect fails unless the error contains the text; no text means no error.
func expect(t *testing.T, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %q", err, text)
	}
}

func TestHTTPWithoutAcceptAndAgent(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(webServer(t, func(r *http.Request) bool {
		_, accept := r.Header["Accept"]
		return !accept && r.UserAgent() == "me"
	}))
	t.Cleanup(server.Close)
	host, port := split(t, server.Listener.Addr().String())
	action := &corev1.HTTPGetAction{Path: "/echo", Port: intstr.FromInt32(port), HTTPHeaders: []corev1.HTTPHeader{
		{Name: "Accept", Value: ""}, {Name: "user-agent", Value: "me"},
	}}
	expect(t, checkOnce(t, corev1.ProbeHandler{HTTPGet: action}, host), "")
}

func TestHTTPS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(webServer(t, nil)) // its certificate is its own
	t.Cleanup(server.Close)
	host, port := split(t, server.Listener.Addr().String())
	for path, want := range map[string]string{"/200": "", "/503": "503"} {
		action := &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTPS}
		expect(t, checkOnce(t, corev1.ProbeHandler{HTTPGet: action}, host), want)
	}
}

func TestHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(webServer(t, func(r *http.Request) bool { return r.ProtoMajor == 2 }))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	host, port := split(t, server.Listener.Addr().String())
	action := &corev1.HTTPGetAction{Path: "/echo", Port: intstr.FromInt32(port), Protocol: new(corev1.HTTPProtocolHTTP2)}
	expect(t, checkOnce(t, corev1.ProbeHandler{HTTPGet: action}, host), "")
}

func TestTCP(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"127.0.0.1:0", "[::1]:0"} {
		open, shut := listen(t, network), listen(t, network)
		host, port := split(t, open.Addr().String())
		_, closedPort := split(t, shut.Addr().String())
		if err := shut.Close(); err != nil {
			t.Fatal(err)
		}
		tcp := func(port intstr.IntOrString, host string) corev1.ProbeHandler {
			return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port, Host: host}}
		}
		named := corev1.ContainerPort{Name: "web", ContainerPort: port}
		expect(t, checkOnce(t, tcp(intstr.FromInt32(port), ""), host), "")
		expect(t, checkOnce(t, tcp(intstr.FromInt32(closedPort), ""), host), "refused")
		expect(t, checkOnce(t, tcp(intstr.FromString("web"), ""), host, named), "")
		expect(t, checkOnce(t, tcp(intstr.FromString(fmt.Sprint(port)), ""), host), "")
		expect(t, checkOnce(t, tcp(intstr.FromString("wed"), ""), host, named), `finding port "wed"`)
		expect(t, checkOnce(t, tcp(intstr.FromInt32(port), host), "192.0.2.1"), "")
		expect(t, checkOnce(t, tcp(intstr.FromInt32(70000), ""), host), `finding port "70000"`)
	}
	expect(t, checkOnce(t, corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 0}}, "127.0.0.1"), `finding port "0"`)
	expect(t, checkOnce(t, corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("x")}}, "127.0.0.1"), `finding port "x"`)
}

func grpcServer(t *testing.T, options ...grpc.ServerOption) (host string, port int32) {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	server, status := grpc.NewServer(options...), health.NewServer()
	status.SetServingStatus("up", healthpb.HealthCheckResponse_SERVING)
	status.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(server, status)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return split(t, l.Addr().String())
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	host, port := grpcServer(t)
	web := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(web.Close)
	_, tlsPort := grpcServer(t, grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0])))
	shut := listen(t, "127.0.0.1:0")
	_, closedPort := split(t, shut.Addr().String())
	if err := shut.Close(); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		action corev1.GRPCAction
		want   string
	}{
		{"the whole server", corev1.GRPCAction{Port: port}, ""},
		{"a service", corev1.GRPCAction{Port: port, Service: new("up")}, ""},
		{"a service that is down", corev1.GRPCAction{Port: port, Service: new("down")}, "NOT_SERVING"},
		{"an unknown service", corev1.GRPCAction{Port: port, Service: new("none")}, "unknown service"},
		{"nobody there", corev1.GRPCAction{Port: closedPort}, "refused"},
		{"TLS", corev1.GRPCAction{Port: tlsPort, Mode: new(corev1.GRPCProbeModeTLS)}, ""},
		{"TLS to a plain server", corev1.GRPCAction{Port: port, Mode: new(corev1.GRPCProbeModeTLS)}, "probing by gRPC"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expect(t, checkOnce(t, corev1.ProbeHandler{GRPC: &c.action}, host), c.want)
		})
	}
}

// TestServerThatHangs: no answer within the timeout is a failure of that time.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0") // accepts in the kernel, never answers
	host, port := split(t, l.Addr().String())
	for name, handler := range map[string]corev1.ProbeHandler{
		"HTTP": {HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(port)}},
		"gRPC": {GRPC: &corev1.GRPCAction{Port: port}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		c := &corev1.Container{ReadinessProbe: &corev1.Probe{ProbeHandler: handler}}
		if err := newNetwork().check(ctx, targetOf(c, host)); err == nil {
			t.Errorf("%s: no answer is a success", name)
		}
		cancel()
	}
}

// TestRealServerGoesAndComes runs a prober against a real server.
func TestRealServerGoesAndComes(t *testing.T) {
	t.Parallel()
	var healthy atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	host, port := split(t, server.Listener.Addr().String())
	flips := make(chan bool, 4)
	p := New(slog.New(slog.DiscardHandler), func(_ discovery.Key, ready bool) { flips <- ready })
	t.Cleanup(p.Close)
	healthy.Store(true)
	p.Set([]*corev1.Pod{newPod("a", times(0, 1, 1, 1, 1), func(pod *corev1.Pod) {
		pod.Status.PodIP = host
		pod.Spec.Containers[0].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)},
		}
	})})
	if ready := <-flips; !ready {
		t.Error("the first flip is to not ready")
	}
	healthy.Store(false)
	if ready := <-flips; ready {
		t.Error("the second flip is to ready")
	}
}
