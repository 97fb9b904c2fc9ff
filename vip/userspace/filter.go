package userspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"signpost/vip"
)

// A socket filter on a listener sees every packet of a handshake before TCP
// does; what it does not let through gets no answer. No privilege is needed.
// Accepted connections inherit it, and it lets the source of each through.

// Verdicts of a filter: how many bytes of the packet to keep.
const (
	filterDrop = 0
	filterPass = math.MaxUint32
)

// filterFor returns the filter that drops what is to be dropped of the packets
// to one address; nil: nothing is.
func filterFor(v *vip.VirtualServer, n *node, local netip.Addr) []bpf.Instruction {
	p := &program{v6: local.Is6()}
	if v.Restricted {
		p.sourceRanges(v.SourceRanges)
	}
	verdicts := [len(vip.Sources)]uint32{}
	for _, s := range vip.Sources {
		verdicts[s] = filterPass
		if act(v, s) == drop {
			verdicts[s] = filterDrop
		}
	}
	mixed := slices.ContainsFunc(verdicts[:], func(v uint32) bool { return v != verdicts[0] })
	switch {
	case mixed:
		p.classes(n, verdicts)
	case verdicts[0] == filterPass && !v.Restricted:
		return nil
	default:
		p.emit(bpf.RetConstant{Val: verdicts[0]})
	}
	return p.code
}

// program is a filter in the making, for packets of one family.
type program struct {
	v6   bool
	code []bpf.Instruction
}

func (p *program) emit(in ...bpf.Instruction) { p.code = append(p.code, in...) }

// sourceRanges drops everybody outside the ranges. Who is inside goes on behind.
func (p *program) sourceRanges(ranges []netip.Prefix) {
	start := len(p.code)
	pass := bpf.Jump{} // its distance is known at the end
	for _, r := range ranges {
		p.ifFrom(r, pass)
	}
	p.emit(bpf.RetConstant{Val: filterDrop})
	for i := start; i < len(p.code); i++ {
		if p.code[i] == bpf.Instruction(pass) {
			p.code[i] = bpf.Jump{Skip: uint32(len(p.code) - i - 1)}
		}
	}
}

// classes is node.source in another language.
func (p *program) classes(n *node, verdicts [len(vip.Sources)]uint32) {
	node := bpf.RetConstant{Val: verdicts[vip.FromNode]}
	for _, a := range n.Addrs {
		p.ifFrom(netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), node)
	}
	p.ifFromLocal(node)
	for _, c := range n.Detector.CIDRs {
		p.ifFrom(c, bpf.RetConstant{Val: verdicts[vip.FromPod]})
	}
	p.ifFrom(loopback4, node)
	p.ifFrom(netip.PrefixFrom(netip.IPv6Loopback(), 128), node)
	p.emit(bpf.RetConstant{Val: verdicts[vip.FromOutside]})
}

// Offsets of the addresses in the network headers. skfNetOff (SKF_NET_OFF, -1
// MiB) makes the kernel count from there: what TCP hands to the filter starts
// at its own header.
const (
	skfNetOff  = 0xfff00000
	source4    = skfNetOff + 12
	source6    = skfNetOff + 8
	toDst4     = 4
	toDst6     = 16
	wordLength = 4
)

func (p *program) layout() (source, toDst, words uint32) {
	if p.v6 {
		return source6, toDst6, 4
	}
	return source4, toDst4, 1
}

// ifFrom executes then for packets whose source is in the prefix. A prefix of
// the other family holds no source.
func (p *program) ifFrom(prefix netip.Prefix, then bpf.Instruction) {
	if prefix.Addr().Is6() != p.v6 {
		return
	}
	source, _, _ := p.layout()
	start, bits := len(p.code), prefix.Bits()
	raw := prefix.Masked().Addr().AsSlice()
	for i := 0; i*32 < bits; i++ {
		p.emit(bpf.LoadAbsolute{Off: source + uint32(i*wordLength), Size: wordLength})
		if left := bits - i*32; left < 32 {
			p.emit(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: math.MaxUint32 << (32 - left)})
		}
		p.emit(bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: binary.BigEndian.Uint32(raw[i*wordLength:])})
	}
	p.emit(then)
	p.skipFrom(start)
}

// ifFromLocal executes then for packets whose source is their destination.
func (p *program) ifFromLocal(then bpf.Instruction) {
	source, toDst, words := p.layout()
	start := len(p.code)
	for i := range words {
		p.emit(
			bpf.LoadAbsolute{Off: source + i*wordLength, Size: wordLength},
			bpf.TAX{},
			bpf.LoadAbsolute{Off: source + toDst + i*wordLength, Size: wordLength},
			bpf.JumpIfX{Cond: bpf.JumpNotEqual},
		)
	}
	p.emit(then)
	p.skipFrom(start)
}

// skipFrom lets the tests of a block jump behind it. A block has at most 17
// instructions, so the distance fits.
func (p *program) skipFrom(start int) {
	for i := start; i < len(p.code); i++ {
		distance := uint8(len(p.code) - i - 1)
		switch test := p.code[i].(type) {
		case bpf.JumpIf:
			test.SkipTrue = distance
			p.code[i] = test
		case bpf.JumpIfX:
			test.SkipTrue = distance
			p.code[i] = test
		}
	}
}

// attach puts a filter on a socket in the place of the one before; nil: none.
func attach(c syscall.RawConn, code []bpf.Instruction) error {
	raw, err := bpf.Assemble(code)
	if err != nil {
		return fmt.Errorf("assembling a socket filter: %w", err)
	}
	filters := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filters[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	var failed error
	err = c.Control(func(fd uintptr) {
		if len(filters) == 0 {
			failed = detach(int(fd))
			return
		}
		fprog := &unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, fprog)
	})
	switch {
	case err != nil:
		return fmt.Errorf("attaching a socket filter: %w", err)
	case failed != nil:
		return fmt.Errorf("attaching a socket filter of %d instructions: %w", len(filters), failed)
	}
	return nil
}

func detach(fd int) error {
	err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: there was none
		return fmt.Errorf("detaching: %w", err)
	}
	return nil
}
