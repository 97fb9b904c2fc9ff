package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	maxRedirects = 10
	maxBody      = 10 << 10 // bytes of an answer that are read before the connection closes
)

// httpClients returns the client for HTTP and HTTPS and the one for HTTP/2 in
// clear text. Neither keeps connections: each probe makes its own.
func (n *network) httpClients() (plain, h2c *http.Client) {
	transport := func() *http.Transport {
		return &http.Transport{
			DialContext: n.dialer.DialContext, TLSClientConfig: n.tls.Clone(), ForceAttemptHTTP2: true,
			DisableKeepAlives: true, DisableCompression: true,
		}
	}
	cleartext := transport()
	cleartext.Protocols = new(http.Protocols)
	cleartext.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport(), CheckRedirect: sameHost}, &http.Client{Transport: cleartext, CheckRedirect: sameHost}
}

// sameHost follows redirects as long as the host stays the same. A redirect to
// another host is taken as the answer, and 3xx is a success.
func sameHost(next *http.Request, via []*http.Request) error {
	if next.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopping after %d redirects", maxRedirects)
	}
	return nil
}

// checkHTTP succeeds on a status from 200 to 399.
func (n *network) checkHTTP(ctx context.Context, action *corev1.HTTPGetAction, address string) error {
	req, err := httpRequest(ctx, action, address)
	if err != nil {
		return err
	}
	client := n.http
	if action.Protocol != nil && *action.Protocol == corev1.HTTPProtocolHTTP2 {
		client = n.h2c
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("probing by HTTP: %w", err)
	}
	defer resp.Body.Close()                                 //nolint:errcheck // it was only read
	io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)) //nolint:errcheck // the status decides; reading spares the server a reset
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("probing by HTTP: %s answers %s", req.URL, resp.Status)
	}
	return nil
}

func httpRequest(ctx context.Context, action *corev1.HTTPGetAction, address string) (*http.Request, error) {
	u, err := url.Parse(action.Path)
	if err != nil { // a path that is no URL is taken as it stands
		u = &url.URL{Path: action.Path}
	}
	u.Scheme, u.Host = "http", address
	if action.Scheme != "" {
		u.Scheme = strings.ToLower(string(action.Scheme))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("making an HTTP request for %q: %w", action.Path, err)
	}
	req.Header = httpHeader(action.HTTPHeaders)
	req.Host = req.Header.Get("Host")
	return req, nil
}

// httpHeader adds the headers that a kubelet sends. One that the probe sets to
// the empty value is not sent.
func httpHeader(from []corev1.HTTPHeader) http.Header {
	header := http.Header{}
	for _, h := range from {
		header.Add(h.Name, h.Value)
	}
	for name, value := range map[string]string{"User-Agent": userAgent, "Accept": "*/*"} {
		if _, set := header[name]; !set {
			header.Set(name, value)
		}
	}
	if header.Get("Accept") == "" {
		header.Del("Accept")
	}
	return header
}
