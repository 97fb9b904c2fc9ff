package ipvs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"signpost/vip"
)

// The older of the kernel's two interfaces to IPVS: it knows IPv4 alone, but
// tells in one system call, without a walk over the whole table, what takes a
// netlink request with several messages. (The file /proc/net/ip_vs hands out a
// page at a time, and walks all that came before for each.)

// Of include/uapi/linux/ip_vs.h.
const (
	getServices  = 64 + 1024 + 64 + 2 // IP_VS_SO_GET_SERVICES
	getDests     = 64 + 1024 + 64 + 4 // IP_VS_SO_GET_DESTS
	schedulerLen = 16                 // IP_VS_SCHEDNAME_MAXLEN
)

// ipvsStats is struct ip_vs_stats_user.
type ipvsStats struct {
	_ [3]uint32
	_ [2]uint64
	_ [5]uint32
}

// ipvsService is struct ip_vs_service_entry. Addresses and ports are in network
// byte order.
type ipvsService struct {
	protocol  uint16
	_         uint16
	addr      [4]byte
	port      [2]byte
	_         uint16
	mark      uint32
	scheduler [schedulerLen]byte
	flags     uint32
	timeout   uint32
	_         uint32 // netmask
	dests     uint32
	_         ipvsStats
}

// ipvsDest is struct ip_vs_dest_entry.
type ipvsDest struct {
	addr     [4]byte
	port     [2]byte
	_        uint16
	_        uint32 // conn_flags
	weight   int32
	_        [2]uint32 // thresholds
	active   uint32
	inactive uint32
	_        uint32 // persistconns
	_        ipvsStats
}

// oldInterface is a socket for it, and memory for its answers.
type oldInterface struct {
	fd    int // below 0: none
	words []uint64
}

// openOldInterface opens one in the calling thread's network namespace. A
// 32-bit process has none: a 64-bit kernel would take its structures for others.
func openOldInterface() *oldInterface {
	if bits.UintSize < 64 {
		return &oldInterface{fd: -1}
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return &oldInterface{fd: -1} // netlink tells the same
	}
	return &oldInterface{fd: fd}
}

func (o *oldInterface) close() {
	if o.fd >= 0 {
		_ = unix.Close(o.fd)
		o.fd = -1
	}
}

// knows reports whether a server can be asked for.
func (o *oldInterface) knows(key serverKey) bool { return o.fd >= 0 && !key.frontend.Is6() }

// room makes room for a head of n words and entries, all zero.
func (o *oldInterface) room(head, n int, entry uintptr) []uint64 {
	need := head + n*int(entry)/8
	if len(o.words) < need {
		o.words = make([]uint64, need)
	}
	words := o.words[:need]
	clear(words)
	return words
}

// get makes a request; the words are its arguments, and then the answer.
func (o *oldInterface) get(option uintptr, words []uint64) error {
	length := uint32(len(words) * 8)
	for range tries {
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(o.fd), unix.IPPROTO_IP, option,
			uintptr(unsafe.Pointer(unsafe.SliceData(words))), uintptr(unsafe.Pointer(&length)), 0)
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno //nolint:wrapcheck // the callers do
		}
	}
	return unix.EINTR
}

// entries are n structures behind the first words.
func entries[T any](words []uint64, head, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(words[head:]))), n)
}

// destinations reads a server's endpoints.
func (o *oldInterface) destinations(key serverKey) ([]destination, error) {
	const head = 3 // protocol, address, port, mark, number
	for n := 16; ; n *= 2 {
		words := o.room(head, n, unsafe.Sizeof(ipvsDest{}))
		raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), head*8)
		if key.mark == 0 {
			binary.NativeEndian.PutUint16(raw, uint16(protocolNumbers[key.frontend.Protocol]))
			copy(raw[4:], key.frontend.Addr.AsSlice())
			binary.BigEndian.PutUint16(raw[8:], key.frontend.Port)
		}
		binary.NativeEndian.PutUint32(raw[12:], key.mark)
		binary.NativeEndian.PutUint32(raw[16:], uint32(n))
		if err := o.get(getDests, words); err != nil {
			return nil, fmt.Errorf("listing the destinations of IPVS server %s: %w", key, err)
		}
		if list := readDests(entries[ipvsDest](words, head, n)); len(list) < n { // else there may be more
			return list, nil
		}
	}
}

func readDests(entries []ipvsDest) []destination {
	var list []destination
	for i := range entries {
		d := &entries[i]
		if d.addr == [4]byte{} {
			break // was not filled
		}
		to := netip.AddrPortFrom(netip.AddrFrom4(d.addr), binary.BigEndian.Uint16(d.port[:]))
		list = append(list, destination{to, int(d.weight), int(d.active + d.inactive)})
	}
	return list
}

// summary is what one request tells of each server.
type summary struct {
	listed
	endpoints int
}

// summaries lists the IPv4 servers; n is about how many there are.
func (o *oldInterface) summaries(n int) (iter.Seq[summary], error) {
	for n = max(n, 16); ; n *= 2 {
		words := o.room(1, n, unsafe.Sizeof(ipvsService{}))
		binary.NativeEndian.PutUint32(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8), uint32(n))
		if err := o.get(getServices, words); err != nil {
			return nil, fmt.Errorf("listing IPVS servers: %w", err)
		}
		if list := entries[ipvsService](words, 1, n); !list[n-1].filled() { // else there may be more
			return readServices(list), nil
		}
	}
}

func (s *ipvsService) filled() bool { return s.protocol != 0 || s.mark != 0 }

func readServices(list []ipvsService) iter.Seq[summary] {
	return func(yield func(summary) bool) {
		scheduler := "" // most have the same
		for i := range list {
			s := &list[i]
			if !s.filled() {
				return
			}
			name := s.scheduler[:max(0, bytes.IndexByte(s.scheduler[:], 0))]
			if string(name) != scheduler {
				scheduler = string(name)
			}
			if read, ok := s.summary(scheduler); ok && !yield(read) {
				return
			}
		}
	}
}

// summary is not ok for a protocol of which there are no frontends.
func (s *ipvsService) summary(scheduler string) (summary, bool) {
	out := summary{endpoints: int(s.dests)}
	out.spec = serverSpec{scheduler: scheduler, flags: s.flags &^ (flagPersistent | flagHashed)}
	if s.flags&flagPersistent != 0 {
		out.spec.affinity = time.Duration(s.timeout) * time.Second
	}
	if s.mark != 0 {
		out.key = byMark(false, s.mark)
		return out, true
	}
	protocol, known := protocolOf(byte(s.protocol))
	out.key.frontend = vip.Frontend{Addr: netip.AddrFrom4(s.addr), Port: binary.BigEndian.Uint16(s.port[:]), Protocol: protocol}
	return out, known && s.protocol < 1<<8
}
