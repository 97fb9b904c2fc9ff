package dnsserver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// validate checks the block; served holds the pairs of address and zone that
// other blocks have.
func (b *Block) validate(served map[string]bool) []error {
	var errs []error
	if len(b.Zones) == 0 {
		errs = append(errs, errors.New("no zone"))
	}
	if len(b.Listen) == 0 {
		errs = append(errs, errors.New("no listening address"))
	}
	if b.MaxUDPSize != 0 {
		errs = append(errs, udpSizeError("", b.MaxUDPSize))
	}
	if b.Cache != nil {
		errs = append(errs, b.Cache.validate())
	}
	for _, zone := range b.Zones {
		if _, ok := dns.IsDomainName(zone); !ok || zone == "" {
			errs = append(errs, fmt.Errorf("zone %q: not a domain name", zone))
		}
	}
	errs = append(errs, b.validateListen(served)...)
	named := errs[:0]
	for _, err := range errs {
		if err != nil {
			named = append(named, fmt.Errorf("block %q: %w", strings.Join(b.Zones, " "), err))
		}
	}
	return named
}

// validateListen checks the block's addresses.
func (b *Block) validateListen(served map[string]bool) []error {
	var errs []error
	for _, addr := range b.Listen {
		ap, err := splitListen(addr)
		if err != nil {
			errs = append(errs, err)
		}
		for _, zone := range b.Zones {
			key := listenKey(b.Transport, ap) + " " + dns.CanonicalName(zone)
			if served[key] {
				errs = append(errs, fmt.Errorf("zone %q on %q: already served by another block", zone, addr))
			}
			served[key] = true
		}
	}
	return errs
}
