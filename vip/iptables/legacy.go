package iptables

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// info is struct ipt_getinfo, which is struct ip6t_getinfo too: what the kernel
// says of a legacy table at once, however large it is.
type info struct {
	name       [32]byte
	validHooks uint32
	hookEntry  [5]uint32
	underflow  [5]uint32
	entries    uint32
	size       uint32
}

// getInfo is IPT_SO_GET_INFO and IP6T_SO_GET_INFO.
const getInfo = 64

// legacyStamp asks for the sizes of the legacy tables. No library has this call.
func legacyStamp() (stamp, error) {
	s := stamp{known: true}
	for i, f := range []*family{ip4, ip6} {
		for _, t := range tables {
			entries, size, err := f.tableSize(t)
			if err != nil {
				return stamp{}, fmt.Errorf("asking for the size of table %q: %w", t, err)
			}
			s.sizes[i*len(tables)+int(t)] = [2]uint32{entries, size}
		}
	}
	return s, nil
}

// tableSize returns a table's number of rules and bytes; zero if there is none.
func (f *family) tableSize(t table) (entries, size uint32, err error) {
	domain, level := unix.AF_INET, unix.IPPROTO_IP
	if f.v6 {
		domain, level = unix.AF_INET6, unix.IPPROTO_IPV6
	}
	socket, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("opening a raw socket: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	i := info{}
	copy(i.name[:], t.String())
	length := uint32(unsafe.Sizeof(i))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(socket), uintptr(level), getInfo,
		uintptr(unsafe.Pointer(&i)), uintptr(unsafe.Pointer(&length)), 0)
	switch {
	case errors.Is(errno, unix.ENOENT), errors.Is(errno, unix.ENOPROTOOPT):
		return 0, 0, nil
	case errno != 0:
		return 0, 0, fmt.Errorf("reading a socket option: %w", errno)
	}
	return i.entries, i.size, nil
}
