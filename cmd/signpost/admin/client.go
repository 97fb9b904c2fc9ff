package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Client asks a running server.
type Client struct {
	path string
	http *http.Client
}

// NewClient returns a client for an address "unix://PATH".
func NewClient(address string) (*Client, error) {
	path, err := SocketPath(address)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{path: path, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
}

// Close ends the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// List returns the objects of a resource.
func (c *Client) List(ctx context.Context, resource string, f Filter) (*List, error) {
	body, err := c.get(ctx, resource, f, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // read to its end
	list := &List{}
	if err := json.NewDecoder(body).Decode(list); err != nil {
		return nil, fmt.Errorf("reading the list of %s: %w", resource, err)
	}
	return list, nil
}

// Watch calls handle for each object that there is, and then for each change,
// until the context ends (which is no error), the server does, or handle fails.
func (c *Client) Watch(ctx context.Context, resource string, f Filter, handle func(Event) error) error {
	body, err := c.get(ctx, resource, f, true)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	for decoder := json.NewDecoder(body); ; {
		var e Event
		if err := decoder.Decode(&e); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watching %s: %w", resource, ended(err))
		}
		if err := handle(e); err != nil {
			return err
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the server has ended")
	}
	return err
}

// Status returns how the server is.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	body, err := c.get(ctx, "status", Filter{}, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	status := &Status{}
	if err := json.NewDecoder(body).Decode(status); err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	return status, nil
}

func (c *Client) get(ctx context.Context, resource string, f Filter, watch bool) (io.ReadCloser, error) {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("namespace", f.Namespace)
	set("name", f.Name)
	if watch {
		set("watch", "true")
	}
	address := url.URL{Scheme: "http", Host: "signpost", Path: "/v1/" + resource, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", resource, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the server at %q: %w (is signpost serve running?)", c.path, errors.Unwrap(err))
	}
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // best effort: the status is the error
		return nil, fmt.Errorf("asking for %s: %s", resource, strings.TrimSpace(string(text)))
	}
	return response.Body, nil
}
