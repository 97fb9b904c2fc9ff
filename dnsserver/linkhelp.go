package dnsserver

import (
	"errors"
	"fmt"

	"github.com/miekg/dns"
)

// askNext gives a request to the next handler and returns its reply instead of
// sending it; nil if there was none.
func askNext(next dns.Handler, w dns.ResponseWriter, r *dns.Msg) *dns.Msg {
	c := &capture{ResponseWriter: w}
	next.ServeDNS(c, r)
	return c.msg
}

// reply sends a handler's own reply.
func reply(w dns.ResponseWriter, m *dns.Msg) {
	_ = w.WriteMsg(m) // the query has recorded what went wrong
}

// canonicalNames returns zones in lower case with their final dots.
func canonicalNames(zones []string) []string {
	out := make([]string, len(zones))
	for i, z := range zones {
		out[i] = dns.CanonicalName(z)
	}
	return out
}

// closestZone returns the longest of the canonical zones that name lies in.
func closestZone(name string, zones []string) (zone string, ok bool) {
	for _, z := range zones {
		if dns.IsSubDomain(z, name) && (!ok || len(z) > len(zone)) {
			zone, ok = z, true
		}
	}
	return zone, ok
}

// orZones returns the zones in canonical form, those of the block if there are
// none.
func orZones(zones, block []string) []string {
	if len(zones) == 0 {
		zones = block
	}
	return canonicalNames(zones)
}

// checkZones reports zones that are no domain names.
func checkZones(of string, zones []string) error {
	var errs []error
	for _, z := range zones {
		if _, ok := dns.IsDomainName(z); !ok || z == "" {
			errs = append(errs, fmt.Errorf("%s: zone %q: not a domain name", of, z))
		}
	}
	return errors.Join(errs...)
}

// built collects links and what was wrong with them.
type built struct{ errs []error }

// link returns the middleware and keeps the error.
func (b *built) link(m middleware, err error) middleware {
	if err != nil {
		b.errs = append(b.errs, err)
		return nil
	}
	return m
}

// serverLabel is what metrics call the server that a query came to.
func (q *query) serverLabel() string {
	if q == nil {
		return ""
	}
	return q.serving.label
}
