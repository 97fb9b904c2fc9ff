package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// api is the API server as its administrator uses it.
type api struct {
	url    string
	client *http.Client
}

func newAPI(url string, p *pki) *api {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{p.admin}, RootCAs: p.roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	return &api{url: url, client: &http.Client{Transport: transport, Timeout: patience}}
}

// do sends one request.
func (a *api) do(method, path, contentType string, body []byte) (status int, text []byte, err error) {
	r, err := http.NewRequestWithContext(context.Background(), method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := a.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// must is do where nothing may go wrong.
func (a *api) must(t *testing.T, method, path, contentType string, body []byte) []byte {
	t.Helper()
	status, text, err := a.do(method, path, contentType, body)
	if err != nil || status >= http.StatusBadRequest {
		t.Fatalf("%s %s: status %d, %v: %s", method, path, status, err, text)
	}
	return text
}

// document is one object of a manifest.
type document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string
	Metadata   struct{ Name, Namespace string }
	Status     json.RawMessage
}

// path is where the API has the object.
func (d *document) path() string {
	root, plural := "/apis/"+d.APIVersion, strings.ToLower(d.Kind)
	if d.APIVersion == "v1" {
		root = "/api/v1"
	}
	if !strings.HasSuffix(plural, "s") {
		plural += "s"
	}
	if d.Metadata.Namespace != "" {
		root += "/namespaces/" + d.Metadata.Namespace
	}
	return root + "/" + plural + "/" + d.Metadata.Name
}

// documents splits a manifest.
func documents(t *testing.T, manifest string) (list []document, texts []string) {
	t.Helper()
	for text := range strings.SplitSeq(manifest, "\n---\n") {
		var d document
		if err := yaml.Unmarshal([]byte(text), &d); err != nil {
			t.Fatalf("reading %s: %v", text, err)
		}
		list, texts = append(list, d), append(texts, text)
	}
	return list, texts
}

// apply creates or changes the objects of a manifest, with their status, as
// `kubectl apply --server-side` does.
func (a *api) apply(t *testing.T, manifest string) {
	t.Helper()
	const query, kind = "?fieldManager=test&force=true", "application/apply-patch+yaml"
	list, texts := documents(t, manifest)
	for i, d := range list {
		a.must(t, http.MethodPatch, d.path()+query, kind, []byte(texts[i]))
		if d.Status != nil {
			a.must(t, http.MethodPatch, d.path()+"/status"+query, kind, []byte(texts[i]))
		}
	}
}

// remove deletes the objects of a manifest, or by their paths.
func (a *api) remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		a.must(t, http.MethodDelete, path, "", nil)
	}
}

// version is the resource version of a list.
func (c *cluster) version(path string) string {
	c.t.Helper()
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(c.must(c.t, http.MethodGet, path, "", nil), &list); err != nil {
		c.t.Fatal(err)
	}
	return list.ResourceVersion
}

// expired reports whether a watch from a version is refused: 410 Gone.
func (c *cluster) expired(path, version string) bool {
	c.t.Helper()
	text := c.must(c.t, http.MethodGet, path+"?watch=true&timeoutSeconds=1&resourceVersion="+version, "", nil)
	return bytes.Contains(text, []byte(`"code":410`))
}

// token makes one for a service account of kube-system, once all rights are in
// force that the role of this name gives.
func (c *cluster) token(account string, rights ...authorizationv1.ResourceAttributes) string {
	c.t.Helper()
	for _, right := range rights {
		eventually(c.t, fmt.Sprintf("the right to %s %s", right.Verb, right.Resource), func() bool { return c.allowed(account, right) })
	}
	lifetime := int64((2 * time.Hour).Seconds())
	asked := authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	text := c.must(c.t, http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts/"+account+"/token", "application/json", asJSON(c.t, asked))
	if err := json.Unmarshal(text, &asked); err != nil {
		c.t.Fatal(err)
	}
	return asked.Status.Token
}

func (c *cluster) allowed(account string, right authorizationv1.ResourceAttributes) bool {
	c.t.Helper()
	review := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:kube-system:" + account, ResourceAttributes: &right,
	}}
	text := c.must(c.t, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", "application/json", asJSON(c.t, review))
	if err := json.Unmarshal(text, &review); err != nil {
		c.t.Fatal(err)
	}
	return review.Status.Allowed
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
