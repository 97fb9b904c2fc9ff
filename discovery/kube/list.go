package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
)

// list implements [cache.ListWithContextFunc]: it asks for all objects, where
// the server can't stream them as a watch. The answer is decoded object by
// object while it arrives: neither its text nor its API objects are ever held
// as a whole (dns-requirements L6).
func (f *fetcher) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.Limit = 0 // pages are for clients that hold them; without, the server answers from its cache
	o.FieldSelector = f.table.resource.fields
	list := &itemList{}
	for {
		if err := f.page(ctx, o, list); err != nil {
			f.failed(ctx, err)
			if f.lacks(err) && f.health.lasting(f.table.resource.name) {
				pause(ctx, wait.Jitter(f.lacking, 1))
			}
			return nil, err
		}
		if list.Continue == "" {
			return list, nil
		}
		o.Continue, list.Continue = list.Continue, ""
		o.ResourceVersion, o.ResourceVersionMatch = "", "" // the token implies them
	}
}

// page appends what one request returns.
func (f *fetcher) page(ctx context.Context, o metav1.ListOptions, list *itemList) error {
	r := f.table.resource
	body, err := f.client.Get().Resource(r.name).VersionedParams(&o, metav1.ParameterCodec).
		SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return err //nolint:wrapcheck // the reflector looks at it, and the resource is said where it is logged
	}
	defer func() { _ = body.Close() }()
	if err := f.decode(body, list); err != nil {
		return fmt.Errorf("reading the list of %s: %w", r.name, err)
	}
	return nil
}

// decode reads one list. A list that is cut short is an error, never a shorter
// list.
func (f *fetcher) decode(from io.Reader, list *itemList) error {
	d := json.NewDecoder(from)
	list.ResourceVersion = ""
	missing := map[string]bool{"kind": true, "items": true}
	err := eachField(d, func(name string) error {
		delete(missing, name)
		switch name {
		case "kind":
			return f.checkKind(d)
		case "metadata":
			return d.Decode(&list.ListMeta)
		case "items":
			return eachElement(d, func() error { return f.decodeItem(d, list) })
		default:
			var ignored json.RawMessage
			return d.Decode(&ignored)
		}
	})
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		return fmt.Errorf("it lacks %q", slices.Sorted(maps.Keys(missing)))
	case list.ResourceVersion == "":
		return errors.New("it has no resource version")
	}
	return nil
}

func (f *fetcher) checkKind(d *json.Decoder) error {
	var kind string
	if err := d.Decode(&kind); err != nil {
		return err //nolint:wrapcheck // page says what was read
	}
	if want := f.table.resource.kind + "List"; kind != want {
		return fmt.Errorf("kind %q: must be %q", kind, want)
	}
	return nil
}

func (f *fetcher) decodeItem(d *json.Decoder, list *itemList) error {
	r := f.table.resource
	o := r.empty()
	if err := d.Decode(o); err != nil {
		return err //nolint:wrapcheck // page says what was read
	}
	list.Items = append(list.Items, r.item(o, f.table.find(keyOf(o))))
	return nil
}

// eachField reads an object and calls read at each value, with its name.
func eachField(d *json.Decoder, read func(name string) error) error {
	if err := expect(d, '{'); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err //nolint:wrapcheck // the caller says what was read
		}
		if err := read(name.(string)); err != nil { // what stands before a colon is a string
			return err
		}
	}
	return expect(d, '}')
}

// eachElement reads an array, or null, and calls read at each element.
func eachElement(d *json.Decoder, read func() error) error {
	start, err := d.Token()
	if err != nil || start == nil {
		return err //nolint:wrapcheck // the caller says what was read
	}
	if start != json.Delim('[') {
		return fmt.Errorf("found %v where an array begins", start)
	}
	for d.More() {
		if err := read(); err != nil {
			return err
		}
	}
	return expect(d, ']')
}

func expect(d *json.Decoder, want json.Delim) error {
	switch found, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err //nolint:wrapcheck // the caller says what was read
	case found != want:
		return fmt.Errorf("found %v: must be %v", found, want)
	}
	return nil
}
