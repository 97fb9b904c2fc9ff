package dnsserver

import (
	"encoding/binary"
	"math/bits"
)

// sipState is the state of SipHash-2-4, the hash that RFC 9018 prescribes for
// server cookies so that servers with the same secret know each other's.
type sipState struct{ v0, v1, v2, v3 uint64 }

// sipHash24 hashes data with a key (Aumasson and Bernstein, 2012).
func sipHash24(key [16]byte, data []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])
	s := sipState{
		v0: k0 ^ 0x736f6d6570736575, v1: k1 ^ 0x646f72616e646f6d,
		v2: k0 ^ 0x6c7967656e657261, v3: k1 ^ 0x7465646279746573,
	}
	last := uint64(len(data)) << 56
	for ; len(data) >= 8; data = data[8:] {
		s.absorb(binary.LittleEndian.Uint64(data))
	}
	for i, b := range data {
		last |= uint64(b) << (8 * i)
	}
	s.absorb(last)
	s.v2 ^= 0xff
	for range 4 {
		s.round()
	}
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

// absorb takes eight octets in.
func (s *sipState) absorb(m uint64) {
	s.v3 ^= m
	s.round()
	s.round()
	s.v0 ^= m
}

// round is one SipRound.
func (s *sipState) round() {
	s.v0 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v2 = bits.RotateLeft64(s.v2, 32)
}
