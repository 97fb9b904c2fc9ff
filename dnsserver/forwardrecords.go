package dnsserver

import (
	"errors"
	"fmt"
	"slices"

	"github.com/miekg/dns"
)

// wholeRecords returns an error if a record lacks some of its data. The library
// takes data that ends after any field, or that is missing, since updates have
// records without (RFC 2136 2.4); packed again, for the cache or a client, such a
// record can't be read.
func wholeRecords(m *dns.Msg) error {
	for _, rr := range slices.Concat(m.Answer, m.Ns, m.Extra) {
		h := rr.Header()
		var err error
		switch rr.(type) {
		case *dns.OPT, *dns.NULL, *dns.APL, *dns.RFC3597: // may be empty
		case *dns.A, *dns.AAAA, *dns.CNAME, *dns.NS, *dns.PTR, *dns.DNAME: // have one field
			err = someData(h)
		default:
			if err = someData(h); err == nil {
				err = readable(rr)
			}
		}
		if err != nil {
			return fmt.Errorf("record %q, %s: %w", h.Name, dns.Type(h.Rrtype), err)
		}
	}
	return nil
}

func someData(h *dns.RR_Header) error {
	if h.Rdlength == 0 {
		return errors.New("no data")
	}
	return nil
}

// readable reports whether a record can be read once it is packed.
func readable(rr dns.RR) error {
	const spare = 64 // a length is the library's estimate
	buf := make([]byte, dns.Len(rr)+spare)
	n, err := dns.PackRR(rr, buf, 0, nil, false)
	if err == nil {
		_, _, err = dns.UnpackRR(buf[:n], 0)
	}
	return err //nolint:wrapcheck // wholeRecords does
}
