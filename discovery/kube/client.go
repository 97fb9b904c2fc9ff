package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// The files of a pod's service account.
const (
	tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	rootsFile = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
)

// settings returns how the library is to reach the API server. Errors say what
// is missing.
func (a API) settings() (*rest.Config, error) {
	config, err := a.base()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, a.Burst
	if a.QPS > 0 {
		config.QPS = float32(a.QPS)
	}
	config.UserAgent = "signpost"
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.Dial = dialer().DialContext
	return config, nil
}

func (a API) base() (*rest.Config, error) {
	switch {
	case a.Kubeconfig != "":
		return a.fromKubeconfig()
	case a.Endpoint != "":
		return a.fromEndpoint()
	}
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New(`finding the API server: this is no pod of a cluster: ` +
			`name the server with "endpoint URL" or "kubeconfig FILE", or read a folder with "manifests FOLDER"`)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the pod's service account: %w", err)
	}
	a.setTLS(config)
	return config, nil
}

func (a API) fromKubeconfig() (*rest.Config, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: a.Context, ClusterInfo: api.Cluster{Server: a.Endpoint}}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: a.Kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %q: %w", a.Kubeconfig, err)
	}
	a.setTLS(config)
	return config, nil
}

func (a API) fromEndpoint() (*rest.Config, error) {
	u, err := url.Parse(a.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("endpoint %q: must be a URL, such as https://192.0.2.10:6443", a.Endpoint)
	}
	config := &rest.Config{Host: a.Endpoint}
	a.setTLS(config)
	if u.Scheme == "https" && a.CertFile == "" && exists(tokenFile) {
		config.BearerTokenFile = tokenFile
		if config.CAFile == "" && exists(rootsFile) {
			config.CAFile = rootsFile
		}
	}
	return config, nil
}

func (a API) setTLS(config *rest.Config) {
	if a.CertFile != "" {
		config.CertFile, config.KeyFile = a.CertFile, a.KeyFile
		config.CertData, config.KeyData = nil, nil
	}
	if a.CAFile != "" {
		config.CAFile, config.CAData = a.CAFile, nil
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// dialer finds a connection dead within 30 s, also one to a server that has
// gone without a word: an idle watch by keepalive, one with something on the
// way by the system's limit for that (B10).
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         10 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         limitUnacknowledged,
	}
}

// unacknowledged is how long sent data may go unconfirmed.
const unacknowledged = 25 * time.Second

// client speaks to the API groups that are needed.
type client struct {
	http   *http.Client
	groups map[schema.GroupVersion]rest.Interface
}

func newClient(config *rest.Config, a API, m *Metrics) (*client, error) {
	if m != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &measured{m, next} })
	}
	if a.MaxInFlight > 0 {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return &limited{make(chan struct{}, a.MaxInFlight), next}
		})
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("setting up the connection to %s: %w", config.Host, err)
	}
	scheme := runtime.NewScheme()
	types := runtime.NewSchemeBuilder(corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, eventsv1.AddToScheme)
	if err := types.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the API's types: %w", err)
	}
	c := &client{http: transport, groups: map[schema.GroupVersion]rest.Interface{}}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	paths := map[schema.GroupVersion]string{
		corev1.SchemeGroupVersion: "/api", discoveryv1.SchemeGroupVersion: "/apis", eventsv1.SchemeGroupVersion: "/apis",
		networkingv1.SchemeGroupVersion: "/apis",
	}
	for group, path := range paths {
		own := rest.CopyConfig(config)
		own.GroupVersion, own.APIPath, own.NegotiatedSerializer = &group, path, codecs
		if c.groups[group], err = rest.RESTClientForConfigAndClient(own, transport); err != nil {
			return nil, fmt.Errorf("setting up the connection to %s: %w", config.Host, err)
		}
	}
	return c, nil
}

// limited holds back requests while too many wait for their answer to begin. A
// watch counts only until then: it lasts.
type limited struct {
	slots chan struct{}
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case t.slots <- struct{}{}:
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	defer func() { <-t.slots }()
	return t.next.RoundTrip(r) //nolint:wrapcheck // a transport adds nothing
}
