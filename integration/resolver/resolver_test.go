package resolver

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestResolvers asks one server with all tools.
func TestResolvers(t *testing.T) {
	s := newSite(t)
	for _, tool := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"dig", s.dig},
		{"kdig", s.kdig},
		{"drill", s.drill},
		{"nslookup", s.nslookup},
		{"getent", s.getent},
		{"musl-gcc", s.musl},
	} {
		t.Run(tool.name, func(t *testing.T) {
			need(t, tool.name)
			tool.test(t)
		})
	}
}

// question is a command line behind the tool's name, and what is expected of it.
type question struct {
	name, args string
	want       []string
}

func (s site) ask(t *testing.T, tool string, read func(string) []string, questions []question) {
	t.Helper()
	for _, q := range questions {
		t.Run(q.name, func(t *testing.T) {
			out := s.run(t, tool, strings.Fields(q.args)...)
			same(t, filepath.Base(tool)+" "+q.args, read(out), q.want...)
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

const (
	zone = ".svc.cluster.local. "
	end  = ".svc.cluster.local." // of a line
)

func (s site) dig(t *testing.T) {
	s.ask(t, "dig", message, []question{
		{"A2 short name", "+search web", []string{"NOERROR", "web.default" + zone + "A 10.96.0.10"}},
		{"A2 name and namespace", "+search web.default", []string{"NOERROR", "web.default" + zone + "A 10.96.0.10"}},
		{"A2 another namespace", "+search api.prod", []string{"NOERROR", "api.prod" + zone + "A 10.96.0.20"}},
		{"A2 up to svc", "+search api.prod.svc", []string{"NOERROR", "api.prod" + zone + "A 10.96.0.20"}},
		{"A2 over TCP", "+search +tcp api.prod.svc", []string{"NOERROR", "api.prod" + zone + "A 10.96.0.20"}},
		{"A2 headless short name", "+search db", []string{"NOERROR", "db.default" + zone + "A 172.16.0.10", "db.default" + zone + "A 172.16.0.11"}},
		{"A2 headless over TCP", "+search +tcp db", []string{"NOERROR", "db.default" + zone + "A 172.16.0.10", "db.default" + zone + "A 172.16.0.11"}},
		{"A2 partial SRV", "+search _http._tcp.web.default.svc SRV", []string{"NOERROR", "_http._tcp.web.default" + zone + "SRV 0 100 80 web.default" + end}},
		{"fully qualified", "+search web.default.svc.cluster.local.", []string{"NOERROR", "web.default" + zone + "A 10.96.0.10"}},
		{"A7 AAAA of an IPv4 name", "+search web AAAA", []string{"NOERROR"}},
		{"A7 A of an IPv6 name", "+search six A", []string{"NOERROR"}},
		{"both families", "+search api.prod AAAA", []string{"NOERROR", "api.prod" + zone + "AAAA fd00:96::20"}},
		{"S1 SRV of headless", "_pg._tcp.db.default.svc.cluster.local SRV", []string{
			"NOERROR",
			"_pg._tcp.db.default" + zone + "SRV 0 50 5432 db-0.db.default" + end,
			"_pg._tcp.db.default" + zone + "SRV 0 50 5432 db-1.db.default" + end,
		}},
		{"PTR", "+search -x 10.96.0.10", []string{"NOERROR", "10.0.96.10.in-addr.arpa. PTR web.default" + end}},
		{"no such name", "+search nosuch", []string{"NXDOMAIN"}},
		{"no such name over TCP", "+search +tcp nosuch.default", []string{"NXDOMAIN"}},
		{"ExternalName", "+search outside", []string{"NOERROR", "outside.default" + zone + "CNAME www.example.com.", "www.example.com. A 192.0.2.80"}},
		{"ndots:5 and a name outside", "+search www.example.com AAAA", []string{"NOERROR", "www.example.com. AAAA 2001:db8::80"}},
	})
}

// kdig and drill know no search path: they are given whole names, over UDP and
// with the option for TCP.
func (s site) kdig(t *testing.T)  { s.whole(t, "kdig", "+tcp") }
func (s site) drill(t *testing.T) { s.whole(t, "drill", "-t") }

func (s site) whole(t *testing.T, tool, tcp string) {
	for _, option := range []string{"", tcp + " "} {
		s.ask(t, tool, message, []question{
			{"fully qualified", option + "web.default.svc.cluster.local A", []string{"NOERROR", "web.default" + zone + "A 10.96.0.10"}},
			{"headless", option + "db.default.svc.cluster.local A", []string{"NOERROR", "db.default" + zone + "A 172.16.0.10", "db.default" + zone + "A 172.16.0.11"}},
			{"SRV", option + "_pg._tcp.db.default.svc.cluster.local SRV", []string{
				"NOERROR",
				"_pg._tcp.db.default" + zone + "SRV 0 50 5432 db-0.db.default" + end,
				"_pg._tcp.db.default" + zone + "SRV 0 50 5432 db-1.db.default" + end,
			}},
			{"PTR", option + "-x 10.96.0.10", []string{"NOERROR", "10.0.96.10.in-addr.arpa. PTR web.default" + end}},
			{"PTR of IPv6", option + "-x fd00:96::20", []string{"NOERROR", reverse6 + " PTR api.prod" + end}},
			{"A7 AAAA of an IPv4 name", option + "web.default.svc.cluster.local AAAA", []string{"NOERROR"}},
			{"no such name", option + "nosuch.default.svc.cluster.local A", []string{"NXDOMAIN"}},
			{"ExternalName", option + "outside.default.svc.cluster.local A", []string{"NOERROR", "outside.default" + zone + "CNAME www.example.com.", "www.example.com. A 192.0.2.80"}},
		})
	}
}

const reverse6 = "0.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa."

// nslookup asks for A and AAAA, one after the other.
func (s site) nslookup(t *testing.T) {
	s.ask(t, "nslookup", behindServer, []question{
		{"A7 short name of an IPv4 service", "web", []string{"Name: web.default.svc.cluster.local", "Address: 10.96.0.10"}},
		{"short name of an IPv6 service", "six", []string{"Name: six.default.svc.cluster.local", "Address: fd00:96::30"}},
		{"name and namespace", "api.prod", []string{
			"Name: api.prod.svc.cluster.local", "Address: 10.96.0.20", "Name: api.prod.svc.cluster.local", "Address: fd00:96::20",
		}},
		{"fully qualified", "web.default.svc.cluster.local.", []string{"Name: web.default.svc.cluster.local", "Address: 10.96.0.10"}},
		{"headless", "db", []string{
			"Name: db.default.svc.cluster.local", "Address: 172.16.0.10", "Name: db.default.svc.cluster.local", "Address: 172.16.0.11",
		}},
		{"SRV", "-type=SRV _http._tcp.web", []string{"_http._tcp.web.default.svc.cluster.local service = 0 100 80 web.default.svc.cluster.local."}},
		{"PTR", "10.96.0.10", []string{"10.0.96.10.in-addr.arpa name = web.default.svc.cluster.local."}},
		{"no such name", "nosuch", []string{"** server can't find nosuch: NXDOMAIN"}},
		{"ExternalName", "outside", []string{
			"outside.default.svc.cluster.local canonical name = www.example.com.",
			"Name: www.example.com", "Address: 192.0.2.80", "Name: www.example.com", "Address: 2001:db8::80",
		}},
	})
}

// lookups are for getaddrinfo, of glibc and of musl: the family behind the name.
var lookups = []question{
	{"A2 short name", "web", []string{"10.96.0.10"}},
	{"A2 name and namespace", "web.default", []string{"10.96.0.10"}},
	{"A2 up to svc", "api.prod.svc", []string{"10.96.0.20", "fd00:96::20"}},
	{"A49 both families in parallel", "api.prod", []string{"10.96.0.20", "fd00:96::20"}},
	{"A49 A7 one family in parallel", "web.default.svc.cluster.local", []string{"10.96.0.10"}},
	{"A49 the other family alone", "six", []string{"fd00:96::30"}},
	{"fully qualified", "web.default.svc.cluster.local.", []string{"10.96.0.10"}},
	{"headless", "db", []string{"172.16.0.10", "172.16.0.11"}},
	{"an endpoint of headless", "db-1.db", []string{"172.16.0.11"}},
	{"IPv6 of both", "api.prod 6", []string{"fd00:96::20"}},
	{"ExternalName", "outside", []string{"192.0.2.80", "2001:db8::80"}},
	{"ndots:5 and a name outside", "www.example.com", []string{"192.0.2.80", "2001:db8::80"}},
	{"A49 one family outside", "four.example.com", []string{"192.0.2.4"}},
	{"no such name", "nosuch", nil},
	{"no such name outside", "nosuch.example.com", nil},
	{"ExternalName without a target", "dangling", nil},
}

// getent has glibc's resolver. It says nothing where there is no name.
func (s site) getent(t *testing.T) {
	command := map[string]string{"": "ahosts", "4": "ahostsv4", "6": "ahostsv6"}
	var questions []question
	for _, l := range lookups {
		name, family, _ := strings.Cut(l.args, " ")
		questions = append(questions, question{l.name, "-s dns " + command[family] + " " + name, l.want})
	}
	s.ask(t, "getent", addresses, questions)
	s.ask(t, "getent", lines, []question{
		{"PTR", "-s dns hosts 10.96.0.10", []string{"10.96.0.10 web.default.svc.cluster.local"}},
	})
}

// addresses reads what getent prints: each address once for each type of socket.
func addresses(out string) []string {
	var list []string
	for _, line := range lines(out) {
		address, _, _ := strings.Cut(line, " ")
		list = append(list, address)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// musl asks for A and AAAA at once, believes the first NXDOMAIN, and gives up at
// SERVFAIL.
func (s site) musl(t *testing.T) {
	lookup := filepath.Join(t.TempDir(), "lookup")
	build := exec.CommandContext(t.Context(), "musl-gcc", "-static", "-o", lookup, "testdata/lookup.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var questions []question
	for _, l := range lookups {
		if l.want == nil {
			l.want = []string{"NONE"} // and not "try again"
		}
		questions = append(questions, l)
	}
	s.ask(t, lookup, lines, append(questions, question{"A7 IPv6 of an IPv4 name", "web 6", []string{"NONE"}}))
}

// behindServer reads what nslookup prints, without the server's address in front.
func behindServer(out string) []string {
	if strings.HasPrefix(out, "Server:") {
		_, out, _ = strings.Cut(out, "\n\n")
	}
	return lines(out)
}

// lines returns the lines that are not empty, each with single spaces.
func lines(out string) []string {
	var list []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 0 {
			list = append(list, strings.Join(f, " "))
		}
	}
	return list
}

var (
	status  = regexp.MustCompile(`(?:status|rcode): (\w+)`)
	section = regexp.MustCompile(`^;; (\w+) SECTION`)
)

// message reads what dig, kdig and drill print: the code, and the records of
// the answer without TTL and class.
func message(out string) []string {
	var list []string
	at := ""
	for line := range strings.Lines(out) {
		if m := status.FindStringSubmatch(line); m != nil {
			list = append(list, m[1])
		}
		if m := section.FindStringSubmatch(line); m != nil {
			at = m[1]
		}
		if f := strings.Fields(line); at == "ANSWER" && len(f) > 4 && !strings.HasPrefix(line, ";") {
			list = append(list, f[0]+" "+strings.Join(f[3:], " "))
		}
	}
	return list
}
