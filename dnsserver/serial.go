package dnsserver

import "time"

// firstSerial is the serial that a zone starts with: the time, so that a
// restarted server goes on above where it was. It would have to have changed
// more than once a second since then for it not to (G7).
func firstSerial(now time.Time) uint32 { return uint32(now.Unix()) }

// nextSerial is the next one in RFC 1982's arithmetic, which wraps.
func nextSerial(serial uint32) uint32 { return serial + 1 }
