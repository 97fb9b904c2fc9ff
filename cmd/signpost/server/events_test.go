package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"signpost/integration/apistub"
)

// What the dataplane can't do for a service is an event of that service, with
// its UID, by which kubectl describe finds it.
func TestEvents(t *testing.T) {
	posted := make(chan string, 10)
	api := apistub.New(apistub.Options{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		posted <- r.URL.Path + " " + string(body)
		return false
	}})
	defer api.Close()
	web := apistub.Service("shop", "web", "127.94.0.20")
	web.UID, web.Spec.ExternalIPs = "u-web", []string{"127.0.0.1"}
	api.Put(&corev1.Node{}, apistub.Namespace("shop"), web)
	text := strings.Replace(strings.Replace(kubeadm, "URL", api.URL(), 1), "    admin", `    vip {
        mode userspace
        node_name n1
        node_port_addresses 192.0.2.0/24
        healthz 127.0.0.1:0
    }
    admin`, 1)
	start(t, text, nil)
	select {
	case got := <-posted:
		for _, part := range []string{"/apis/events.k8s.io/v1/namespaces/shop/events ", "ProgrammedInPart", "Warning", "u-web", "signpost-n1", "a loopback address"} {
			if !strings.Contains(got, part) {
				t.Errorf("no %q in %q", part, got)
			}
		}
	case <-time.After(10 * time.Second):
		t.Error("no event was written")
	}
}
