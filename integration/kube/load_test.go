package kube

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"signpost/integration/apistub"
)

const (
	loadServices  = 1000
	loadEndpoints = 10 // of each
)

// TestLoad starts signpost at a cluster with many Services and prints how long
// it takes and what it needs. It judges the answers, not the figures.
func TestLoad(t *testing.T) {
	c := newCluster(t)
	kubeconfig := c.kubeconfig(account, c.url(), "token: "+c.grant())
	c.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: load}")
	started := time.Now()
	var work errgroup.Group
	work.SetLimit(16)
	for i := range loadServices {
		work.Go(func() error { return c.loadService(i) })
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d Services with %d endpoints each were written in %v", loadServices, loadEndpoints, time.Since(started).Round(time.Millisecond))

	started = time.Now()
	s := startServer(t, kubeadm, kubeconfig)
	s.waitReady()
	t.Logf("ready after %v (the start of the program and, without SIGNPOST, its build included)", time.Since(started).Round(time.Millisecond))
	for _, i := range []int{0, loadServices / 2, loadServices - 1} {
		name := fmt.Sprintf("s%d.load.svc.cluster.local", i)
		if got := s.ask(name, "A"); got != loadAddress(i) {
			t.Errorf("%s: %q, want %q", name, got, loadAddress(i))
		}
	}
	t.Logf("resident: %s", s.resident())
	c.apply(t, "apiVersion: v1\nkind: Service\nmetadata: {name: new, namespace: load}\nspec: {clusterIP: 10.96.1.1, ports: [{port: 80}]}")
	s.expect("new.load.svc.cluster.local", "A", "10.96.1.1")
}

// loadAddress is the cluster IP of the service of a number.
func loadAddress(i int) string { return fmt.Sprintf("10.96.%d.%d", 100+i/200, 1+i%200) }

func (c *cluster) loadService(i int) error {
	name := fmt.Sprintf("s%d", i)
	service := apistub.Service("load", name, loadAddress(i))
	service.Spec.Selector = nil // nobody but the test makes its slices
	service.APIVersion, service.Kind = "v1", "Service"
	var addresses []string
	for e := range loadEndpoints {
		addresses = append(addresses, fmt.Sprintf("10.244.%d.%d", i/25, 1+i%25*loadEndpoints+e))
	}
	slice := apistub.Slice("load", name, name+"-1", addresses...)
	slice.APIVersion, slice.Kind = discoveryv1.SchemeGroupVersion.String(), "EndpointSlice"
	for path, object := range map[string]any{
		"/api/" + corev1.SchemeGroupVersion.String() + "/namespaces/load/services":             service,
		"/apis/" + discoveryv1.SchemeGroupVersion.String() + "/namespaces/load/endpointslices": slice,
	} {
		status, text, err := c.do(http.MethodPost, path, "application/json", asJSON(c.t, object))
		if err != nil || status != http.StatusCreated {
			return fmt.Errorf("creating %s: status %d, %w: %s", name, status, err, text)
		}
	}
	return nil
}

// resident is the memory of the process: now, and at most.
func (p *process) resident() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return err.Error()
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "VmRSS:") || strings.HasPrefix(line, "VmHWM:") {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(found, ", ")
}
