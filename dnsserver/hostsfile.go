package dnsserver

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// hostsTable is what hosts lines say. It is immutable once published.
type hostsTable struct {
	byName map[string][]netip.Addr // canonical names; "*.example." for one label below
	byAddr map[netip.Addr][]string
	size   int
}

func newHostsTable() *hostsTable {
	return &hostsTable{byName: map[string][]netip.Addr{}, byAddr: map[netip.Addr][]string{}}
}

// errNoHost is a line that isn't "ADDRESS NAME…".
var errNoHost = errors.New("must be an address and one or more names")

// add takes one line in; comments and empty lines are none.
func (t *hostsTable) add(line string) error {
	line, _, _ = strings.Cut(line, "#")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return nil
	}
	addr, err := netip.ParseAddr(fields[0])
	if err != nil || len(fields) < 2 {
		return errNoHost
	}
	addr = addr.Unmap().WithZone("")
	for _, name := range fields[1:] {
		if _, ok := dns.IsDomainName(name); !ok {
			return errNoHost
		}
		t.set(dns.CanonicalName(name), addr)
	}
	return nil
}

func (t *hostsTable) set(name string, addr netip.Addr) {
	if slices.Contains(t.byName[name], addr) {
		return
	}
	t.byName[name] = append(t.byName[name], addr)
	t.size++
	if !strings.HasPrefix(name, "*.") { // a wildcard is nobody's name
		t.byAddr[addr] = append(t.byAddr[addr], name)
	}
}

// addrs returns a name's addresses of both families, and whether it exists. A
// wildcard stands for one label, where nothing more exact is there.
func (t *hostsTable) addrs(name string) ([]netip.Addr, bool) {
	if addrs, ok := t.byName[name]; ok {
		return addrs, true
	}
	if at, end := dns.NextLabel(name, 0); !end {
		addrs, ok := t.byName["*."+name[at:]]
		return addrs, ok
	}
	return nil, false
}

// reverse returns the names at a reverse name.
func (t *hostsTable) reverse(name string) []string {
	var q queryName
	if !q.parse(name) {
		return nil
	}
	p, ok := parseReverse(&q)
	if !ok || p.Bits() != p.Addr().BitLen() {
		return nil
	}
	return t.byAddr[p.Addr()]
}

// fileState tells whether a file has changed.
type fileState struct {
	modified time.Time
	size     int64
}

// refresh looks at the file when it is time to. The query that comes then
// waits for it, so that nobody gets an answer that is older than promised.
func (h *hosts) refresh() {
	if h.cfg.File == "" || h.reload == 0 {
		return
	}
	if now := time.Now().UnixNano(); now-h.looked.Load() >= int64(h.reload) {
		h.look()
	}
}

// look reads the file if it has changed. One that can't be read says nothing:
// the lines of the Corefile go on alone.
func (h *hosts) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.looked.Swap(time.Now().UnixNano())
	if last != 0 && h.looked.Load()-last < int64(h.reload) {
		return // someone else has just looked
	}
	if h.cfg.File == "" {
		h.count()
		return
	}
	info, err := os.Stat(h.cfg.File)
	state := fileState{}
	if err == nil {
		state = fileState{info.ModTime(), info.Size()}
	}
	if last != 0 && state == h.seen {
		return
	}
	text, err := os.ReadFile(h.cfg.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("reading hosts failed", "file", h.cfg.File, "err", err)
	}
	h.seen = state
	h.table.Store(h.read(text))
	h.count()
}

// read makes the table of a file's text and the lines of the Corefile. A line
// that is no host is left out, as every reader of /etc/hosts does it.
func (h *hosts) read(text []byte) *hostsTable {
	t := newHostsTable()
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		if err := t.add(lines.Text()); err != nil {
			h.log.Warn("leaving a line of hosts out", "file", h.cfg.File, "line", n, "err", err)
		}
	}
	for _, line := range h.cfg.Inline {
		_ = t.add(line) // was checked before
	}
	return t
}

func (h *hosts) count() {
	h.metrics.hostsEntries.Set(float64(h.table.Load().size))
	h.metrics.hostsReload.SetToCurrentTime()
}
