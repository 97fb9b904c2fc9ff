package echo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// free returns an address that was free a moment ago.
func free(t testing.TB, host string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

var sentence = regexp.MustCompile(`^pod (\S+) at (\S+), you are (\S+)$`)

func check(t *testing.T, what, text, name string, at netip.AddrPort, client string) {
	t.Helper()
	m := sentence.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
	if m == nil || m[1] != name || m[2] != at.String() || client != "" && m[3] != client {
		t.Errorf("%s: %q; want pod %s at %s, you are %s", what, text, name, at, client)
	}
}

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	one, two := free(t, "127.1.0.1"), free(t, "127.1.0.2")
	start(t, Config{Identities: []Identity{{"web-1", one}, {"web-2", two}}})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 3 { // on one connection
		_, body := get(t, client, "http://"+one.String()+"/some/path?x=1")
		check(t, "GET", body, "web-1", one, "")
	}
	_, body := get(t, client, "http://"+two.String())
	check(t, "GET", body, "web-2", two, "")
	r, err := client.Post("http://"+one.String(), "text/plain", strings.NewReader(strings.Repeat("x", 100000)))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
}

func TestHealth(t *testing.T) {
	t.Parallel()
	one, two := free(t, "127.1.0.1"), free(t, "127.1.0.2")
	s := start(t, Config{Identities: []Identity{{"web-1", one}, {"web-2", two}}})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status := func(a netip.AddrPort, query string) int {
		code, _ := get(t, client, "http://"+a.String()+"/healthz"+query)
		return code
	}
	for i, step := range []struct {
		at    netip.AddrPort
		query string
		want  int
	}{
		{one, "", 200},
		{one, "?ready=false", 200},
		{one, "", 503},
		{two, "", 200},
		{one, "?ready=perhaps", 400},
		{one, "", 503},
		{one, "?ready=true", 200},
		{one, "", 200},
	} {
		if got := status(step.at, step.query); got != step.want {
			t.Errorf("step %d: %s%s: %d, want %d", i, step.at, step.query, got, step.want)
		}
	}
	s.SetReady("web-2", false)
	s.SetReady("nobody", false)
	if got := status(two, ""); got != 503 {
		t.Errorf("SetReady: %d", got)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.1.0.1", "::1"} {
		at := free(t, host)
		start(t, Config{Identities: []Identity{{"web-1", at}}, UDP: true})
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		for _, line := range []string{"hello", "", "GETTING nowhere", "G"} {
			fmt.Fprintln(c, line)
			answer, _ := in.ReadString('\n')
			check(t, line, answer, "web-1", at, c.LocalAddr().String())
		}
		c.(*net.TCPConn).CloseWrite()
		if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
			t.Errorf("after the end: %q, %v", rest, err)
		}
		c.Close()

		if c, err = net.Dial("tcp", at.String()); err != nil {
			t.Fatal(err)
		}
		c.(*net.TCPConn).CloseWrite() // nc </dev/null
		answer, _ := io.ReadAll(c)
		check(t, "nothing said", string(answer), "web-1", at, c.LocalAddr().String())
		c.Close()

		u, err := net.Dial("udp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(u, "anything")
		buf := make([]byte, 512)
		n, err := u.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "UDP", string(buf[:n]), "web-1", at, u.LocalAddr().String())
		u.Close()
	}
}

func TestSCTP(t *testing.T) {
	t.Parallel()
	at := free(t, "127.1.0.1")
	s, err := Start(t.Context(), Config{Identities: []Identity{{"web-1", at}}, SCTP: true})
	if errors.Is(err, syscall.EPROTONOSUPPORT) || errors.Is(err, syscall.ESOCKTNOSUPPORT) {
		if !strings.Contains(err.Error(), "does the kernel have SCTP?") {
			t.Errorf("the reason is not in %q", err)
		}
		return // all that can be shown here: it says so
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := DialSCTP(at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, "hello")
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	check(t, "SCTP", answer, "web-1", at, "")
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	at := free(t, "127.1.0.1")
	start(t, Config{Identities: []Identity{{"web-1", at}}})
	_, err := Start(t.Context(), Config{Identities: []Identity{{"web-2", free(t, "127.1.0.1")}, {"web-3", at}}})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), `"web-3"`) {
		t.Errorf("err %v", err)
	}
}

func TestCloseEndsConnections(t *testing.T) {
	t.Parallel()
	at := free(t, "127.1.0.1")
	s := start(t, Config{Identities: []Identity{{"web-1", at}}})
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, "hello")
	bufio.NewReader(c).ReadString('\n')
	s.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("still open")
	}
}
