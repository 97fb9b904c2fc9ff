package dnsserver

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// TestForwardHost checks upstreams that are given by name.
func TestForwardHost(t *testing.T) {
	t.Parallel()
	up := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{good(t, r, "@ 60 IN A 192.0.2.1")} })
	silent := newScripted(t, func(*dns.Msg, bool) []*dns.Msg { return nil })
	empty := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg { return []*dns.Msg{new(dns.Msg).SetRcode(r, dns.RcodeNameError)} })
	knows := newScripted(t, func(r *dns.Msg, _ bool) []*dns.Msg {
		if r.Question[0].Name != "ns.example." || r.Question[0].Qtype != dns.TypeA {
			return []*dns.Msg{new(dns.Msg).SetReply(r)}
		}
		return []*dns.Msg{good(t, r, "@ 60 IN A 127.0.0.1")}
	})
	port := ":" + strconv.Itoa(int(up.addr.Port()))
	for _, tt := range []struct {
		name      string
		to        string
		resolvers []*scripted
		wantErr   string
	}{
		{"F1 resolver", "ns.example" + port, []*scripted{knows}, ""},
		{"F1 the first doesn't know", "ns.example" + port, []*scripted{empty, knows}, ""},
		{"F1 the first is silent", "ns.example" + port, []*scripted{silent, knows}, ""},
		{"F1 nobody knows", "ns.example" + port, []*scripted{empty}, `looking up upstream "ns.example` + port + `": no address`},
		{"F1 no search path", "ns" + port, []*scripted{knows}, "no address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg, fc := forwardTo()
			fc.To, fc.Policy = []string{tt.to}, Random
			for _, r := range tt.resolvers {
				fc.Resolvers = append(fc.Resolvers, r.addr.String())
			}
			if tt.wantErr != "" {
				if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			s := startWith(t, cfg, nil)
			if got := answerOf(queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))); got != "192.0.2.1" {
				t.Errorf("answer %s", got)
			}
		})
	}
	cfg, fc := forwardTo(up)
	fc.Resolvers = []string{"dns.example"}
	if _, err := New(cfg); err == nil {
		t.Error("F1 a resolver by name: no error")
	}
}

// TestForwardSource checks source_address, for both transports.
func TestForwardSource(t *testing.T) {
	t.Parallel()
	source := netip.MustParseAddr("127.0.0.9")
	var from [2]netip.Addr
	ln, pc := listenBoth(t)
	defer func() { _, _ = ln.Close(), pc.Close() }()
	asked := make(chan struct{})
	go func() { // ends with the sockets, after the test has heard from it
		buf := make([]byte, 512)
		n, addr, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		from[0] = addr.(*net.UDPAddr).AddrPort().Addr()
		r := new(dns.Msg)
		if r.Unpack(buf[:n]) != nil {
			return
		}
		m := good(t, r)
		m.Truncated = true
		wire, _ := m.Pack() // what was unpacked
		_, _ = pc.WriteTo(wire, addr)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		from[1] = conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
		_ = conn.Close()
		close(asked)
	}()
	cfg, fc := forwardTo()
	fc.To, fc.Source, fc.MaxAttempts, fc.Timeout = []string{pc.LocalAddr().String()}, source, 1, patience
	s := startWith(t, cfg, nil)
	queryUDP(t, addrOf(s), askFor("a.example.", dns.TypeA))
	<-asked
	if from[0] != source || from[1] != source {
		t.Errorf("F1 asked from %v, want %v", from, source)
	}
}
