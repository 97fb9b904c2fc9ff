package dnsserver

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"
)

// Sizes of DNS cookies (RFC 7873 4, RFC 9018 4).
const (
	clientCookieLen    = 8
	serverCookieLen    = 16
	cookieLen          = clientCookieLen + serverCookieLen
	minServerCookieLen = 8
	maxServerCookieLen = 32
)

// How long a server cookie is good for, and from when on a client gets a new
// one (RFC 9018 4.3); how long a secret is used.
const (
	cookieLifetime = time.Hour
	cookieFuture   = 5 * time.Minute
	cookieRenew    = 30 * time.Minute
	secretLifetime = 26 * time.Hour
)

// cookieVersion is the one of RFC 9018.
const cookieVersion = 1

// cookieOption is a request's COOKIE option.
type cookieOption struct {
	data [clientCookieLen + maxServerCookieLen]byte
	n    uint8 // octets; 0: no option
}

// read takes the option in; false means that it is malformed (RFC 7873 5.2.2).
func (c *cookieOption) read(b []byte) bool {
	server := len(b) - clientCookieLen
	if server != 0 && (server < minServerCookieLen || server > maxServerCookieLen) {
		return false
	}
	c.n = uint8(copy(c.data[:], b))
	return true
}

// cookieSecret is a key of the server cookies.
type cookieSecret struct {
	key  [16]byte
	born time.Time
}

// cookieJar makes and checks server cookies. The secret changes now and then;
// the one before it stays good for as long as its cookies do.
type cookieJar struct {
	now func() time.Time

	mu           sync.Mutex
	secret, past cookieSecret
}

func newCookieJar(now func() time.Time) *cookieJar { return &cookieJar{now: now} }

// secrets returns the keys, the newest first, and the time.
func (j *cookieJar) secrets() (now time.Time, secret, past cookieSecret) {
	now = j.now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.secret.born.IsZero() || now.Sub(j.secret.born) > secretLifetime {
		j.past = j.secret
		_, _ = rand.Read(j.secret.key[:]) // never fails
		j.secret.born = now
	}
	return now, j.secret, j.past
}

// check reports whether the option holds a server cookie of ours that is still
// good for the client.
func (j *cookieJar) check(c *cookieOption, client netip.Addr) bool {
	if c.n != cookieLen || c.data[clientCookieLen] != cookieVersion {
		return false
	}
	now, secret, past := j.secrets()
	// Serial number arithmetic, as the times are of 32 bits.
	age := time.Duration(int32(uint32(now.Unix())-binary.BigEndian.Uint32(c.data[12:]))) * time.Second
	if age > cookieLifetime || age < -cookieFuture {
		return false
	}
	if c.matches(&secret, client) {
		return true
	}
	return !past.born.IsZero() && now.Sub(secret.born) <= cookieLifetime && c.matches(&past, client)
}

// matches compares the hash.
func (c *cookieOption) matches(secret *cookieSecret, client netip.Addr) bool {
	want := cookieHash(secret.key, c.data[:16], client)
	return subtle.ConstantTimeCompare(want[:], c.data[16:24]) == 1
}

// make returns the cookie for a reply: the client's, and a server cookie. One
// that is young enough is given back as it is.
func (j *cookieJar) make(c *cookieOption, client netip.Addr) (out [cookieLen]byte) {
	now, secret, _ := j.secrets()
	if c.n == cookieLen && j.check(c, client) {
		born := binary.BigEndian.Uint32(c.data[12:])
		if age := time.Duration(int32(uint32(now.Unix())-born)) * time.Second; age <= cookieRenew && c.matches(&secret, client) {
			copy(out[:], c.data[:])
			return out
		}
	}
	copy(out[:], c.data[:clientCookieLen])
	out[clientCookieLen] = cookieVersion
	binary.BigEndian.PutUint32(out[12:], uint32(now.Unix()))
	hash := cookieHash(secret.key, out[:16], client)
	copy(out[16:], hash[:])
	return out
}

// cookieHash is the hash of RFC 9018 4.4 over client cookie, version, reserved
// octets, time and address.
func cookieHash(key [16]byte, head []byte, client netip.Addr) (hash [8]byte) {
	var buf [16 + 16]byte
	n := copy(buf[:], head)
	n += copy(buf[n:], client.Unmap().AsSlice())
	binary.LittleEndian.PutUint64(hash[:], sipHash24(key, buf[:n]))
	return hash
}
