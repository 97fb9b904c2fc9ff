package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"signpost/cmd/signpost/admin"
)

// dnsClient asks one DNS server over one TCP connection, one question at a time.
type dnsClient struct {
	conn net.Conn
	id   uint16
}

// askTimeout bounds one question to our own process.
const askTimeout = 2 * time.Second

// dialDNS connects to a listener; one on all addresses is met on loopback.
func dialDNS(ctx context.Context, addr netip.AddrPort) (*dnsClient, error) {
	if addr.Addr().IsUnspecified() {
		loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if addr.Addr().Is6() {
			loopback = netip.IPv6Loopback()
		}
		addr = netip.AddrPortFrom(loopback, addr.Port())
	}
	dialer := net.Dialer{Timeout: askTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	return &dnsClient{conn: conn}, nil
}

func (c *dnsClient) close() { _ = c.conn.Close() } // nothing is in flight

var recordTypes = map[string]dnsmessage.Type{
	"A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "CNAME": dnsmessage.TypeCNAME, "NS": dnsmessage.TypeNS,
	"PTR": dnsmessage.TypePTR, "SOA": dnsmessage.TypeSOA, "SRV": dnsmessage.TypeSRV, "TXT": dnsmessage.TypeTXT,
}

// ask returns the records of a type at a name; a name that does not exist has
// none.
func (c *dnsClient) ask(name, rtype string) ([]admin.Record, error) {
	c.id++
	owner, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, fmt.Errorf("asking for %q: %w", name, err)
	}
	question := dnsmessage.Question{Name: owner, Type: recordTypes[rtype], Class: dnsmessage.ClassINET}
	query := dnsmessage.Message{Header: dnsmessage.Header{ID: c.id}, Questions: []dnsmessage.Question{question}}
	packed, err := query.AppendPack([]byte{0, 0})
	if err != nil {
		return nil, fmt.Errorf("asking for %q: %w", name, err)
	}
	binary.BigEndian.PutUint16(packed, uint16(len(packed)-2))
	reply, err := c.exchange(packed)
	if err != nil {
		return nil, fmt.Errorf("asking for %q: %w", name, err)
	}
	return answers(reply, c.id, rtype)
}

func (c *dnsClient) exchange(query []byte) ([]byte, error) {
	if err := c.conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(query); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(c.conn, reply)
	return reply, err
}

var errMismatch = errors.New("reply to another question")

func answers(reply []byte, id uint16, rtype string) ([]admin.Record, error) {
	var m dnsmessage.Message
	if err := m.Unpack(reply); err != nil {
		return nil, err
	}
	if m.ID != id {
		return nil, errMismatch
	}
	if m.RCode != dnsmessage.RCodeSuccess && m.RCode != dnsmessage.RCodeNameError {
		return nil, fmt.Errorf("the server says %s", strings.TrimPrefix(m.RCode.String(), "RCode"))
	}
	var list []admin.Record
	for _, r := range m.Answers {
		if data, ok := presentation(r.Body); ok && r.Header.Type == recordTypes[rtype] {
			list = append(list, admin.Record{Owner: r.Header.Name.String(), TTL: r.Header.TTL, Type: rtype, Data: data})
		}
	}
	return list, nil
}

// presentation writes a record's data as a zone file does (RFC 1035 section 5).
func presentation(body dnsmessage.ResourceBody) (string, bool) {
	switch b := body.(type) {
	case *dnsmessage.AResource:
		return netip.AddrFrom4(b.A).String(), true
	case *dnsmessage.AAAAResource:
		return netip.AddrFrom16(b.AAAA).String(), true
	case *dnsmessage.CNAMEResource:
		return b.CNAME.String(), true
	case *dnsmessage.NSResource:
		return b.NS.String(), true
	case *dnsmessage.PTRResource:
		return b.PTR.String(), true
	case *dnsmessage.SRVResource:
		return fmt.Sprintf("%d %d %d %s", b.Priority, b.Weight, b.Port, b.Target), true
	case *dnsmessage.TXTResource:
		quoted := make([]string, len(b.TXT))
		for i, text := range b.TXT {
			quoted[i] = strconv.Quote(text)
		}
		return strings.Join(quoted, " "), true
	case *dnsmessage.SOAResource:
		return fmt.Sprintf("%s %s %d %d %d %d %d", b.NS, b.MBox, b.Serial, b.Refresh, b.Retry, b.Expire, b.MinTTL), true
	default:
		return "", false
	}
}

// reverseName is the name of an address's PTR record.
func reverseName(a netip.Addr) string {
	const hexDigits = "0123456789abcdef"
	bytes := a.AsSlice()
	var b strings.Builder
	for i := len(bytes) - 1; i >= 0; i-- {
		if a.Is4() {
			b.WriteString(strconv.Itoa(int(bytes[i])) + ".")
			continue
		}
		b.Write([]byte{hexDigits[bytes[i]&0xf], '.', hexDigits[bytes[i]>>4], '.'})
	}
	if a.Is4() {
		return b.String() + "in-addr.arpa."
	}
	return b.String() + "ip6.arpa."
}
