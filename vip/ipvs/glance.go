package ipvs

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"io"
	"net/netip"
	"strconv"

	"signpost/discovery"
	"signpost/vip"
)

// IPVS tells nobody when it changes. A table that is not large can be read from
// /proc/net/ip_vs, though, at a tenth of what netlink takes, which needs a
// request for every server. It lacks some attributes: good for a glance. Of a
// large table only the beginning is read: the kernel hands out a page at a time
// and walks all that came before for each, so that all of it costs as the square
// of its size. See rolling.go for the rest.
//
//	Prot LocalAddress:Port Scheduler Flags
//	  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
//	TCP  0A600001:01BB rr persistent 360000 FFFFFFFF
//	  -> AC100102:1F90      Masq    1      0          0
//	TCP  [2001:0db8:0000:0000:0000:0000:0000:0001]:0050 rr
//	FWM  00012800 rr

// tableFile is per network namespace, of the thread that opens it.
const tableFile = "/proc/thread-self/net/ip_vs"

// glance is what the table showed, by server. A server by mark is under the
// mark alone: the table does not tell its family. Nil: nothing could be read.
type glance map[serverKey]*glanced

type glanced struct {
	scheduler    string
	persistent   bool
	destinations []destination
}

func readGlance(r io.Reader) (glance, error) {
	g := glance{}
	var at *glanced
	var fields [][]byte // of a line, in the same memory for each
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields = splitFields(fields[:0], lines.Bytes())
		switch {
		case len(fields) < 3:
			at = nil
		case string(fields[0]) == "->" && at != nil:
			if d, ok := parseDestination(fields); ok {
				at.destinations = append(at.destinations, d)
			}
		default:
			at = nil
			if key, ok := parseServer(fields); ok {
				at = &glanced{scheduler: string(fields[2]), persistent: len(fields) > 3 && string(fields[3]) == "persistent"}
				g[key] = at
			}
		}
	}
	return g, lines.Err() //nolint:wrapcheck // no caller tells it
}

func splitFields(fields [][]byte, line []byte) [][]byte {
	for field := range bytes.FieldsSeq(line) {
		fields = append(fields, field)
	}
	return fields
}

func parseServer(fields [][]byte) (serverKey, bool) {
	if string(fields[0]) == "FWM" {
		mark, err := strconv.ParseUint(string(fields[1]), 16, 32)
		return serverKey{mark: uint32(mark)}, err == nil
	}
	protocol, err := discovery.ParseProtocol(string(fields[0]))
	ap, ok := parseAddrPort(fields[1])
	return serverKey{frontend: vip.Frontend{Addr: ap.Addr(), Port: ap.Port(), Protocol: protocol}}, ok && err == nil
}

func parseDestination(fields [][]byte) (destination, bool) {
	if len(fields) < 6 {
		return destination{}, false
	}
	to, ok := parseAddrPort(fields[1])
	d := destination{to: to}
	var numbers [3]int
	for i := range numbers {
		n, err := strconv.Atoi(string(fields[3+i]))
		ok = ok && err == nil
		numbers[i] = n
	}
	d.weight, d.connections = numbers[0], numbers[1]+numbers[2]
	return d, ok
}

// parseAddrPort reads "0A600001:01BB" or "[2001:…]:0050".
func parseAddrPort(text []byte) (netip.AddrPort, bool) {
	at := bytes.LastIndexByte(text, ':')
	if at < 0 {
		return netip.AddrPort{}, false
	}
	port, err := strconv.ParseUint(string(text[at+1:]), 16, 16)
	if err != nil {
		return netip.AddrPort{}, false
	}
	host := text[:at]
	if len(host) > 2 && host[0] == '[' {
		addr, err := netip.ParseAddr(string(host[1 : len(host)-1]))
		return netip.AddrPortFrom(addr, uint16(port)), err == nil
	}
	var raw [4]byte
	if len(host) != 8 {
		return netip.AddrPort{}, false
	}
	_, err = hex.Decode(raw[:], host)
	return netip.AddrPortFrom(netip.AddrFrom4(raw), uint16(port)), err == nil
}

// readStart reads the beginning of the table: all of a small one, and as much
// of a large one as costs little. What was cut off in the middle is left out.
func readStart(r io.Reader) (g glance, whole bool, err error) {
	start, err := io.ReadAll(io.LimitReader(r, glanceStart+1))
	if err != nil {
		return nil, false, err //nolint:wrapcheck // no caller tells it
	}
	if len(start) <= glanceStart {
		g, err = readGlance(bytes.NewReader(start))
		return g, true, err
	}
	last := 0 // begins the last server
	for _, begin := range []string{"\nTCP ", "\nUDP ", "\nSCTP", "\nFWM "} {
		last = max(last, bytes.LastIndex(start, []byte(begin)))
	}
	g, err = readGlance(bytes.NewReader(start[:last]))
	return g, false, err
}

// find returns what was shown of a server.
func (g glance) find(key serverKey) *glanced { return g[key.shown()] }

// shown is the key under which a glance has the server.
func (k serverKey) shown() serverKey {
	if k.mark != 0 {
		k.frontend = vip.Frontend{}
	}
	return k
}

// shows reports whether a server was there just as it is held.
func (g glance) shows(key serverKey, h *holding) bool {
	shown := g.find(key)
	if shown == nil || len(shown.destinations) != len(h.weights) ||
		shown.scheduler != h.spec.scheduler || shown.persistent != (h.spec.affinity > 0) {
		return false
	}
	for _, d := range shown.destinations {
		if w, ok := h.weights[d.to]; !ok || w != d.weight {
			return false
		}
	}
	return true
}
