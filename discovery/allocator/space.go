package allocator

// space is a range of numbers 0..size-1, some of which have an owner.
//
// Numbers below dynamic form the static band: they are given out unasked only
// when the dynamic band is full. Those below reserved are never
// given out unasked.
type space struct {
	size, dynamic, reserved uint64

	owners map[uint64]string
	// dynamicUsed counts the owned numbers of the dynamic band, so that a full
	// band is known without a walk.
	dynamicUsed uint64
	// random returns a number in 0..n-1. Nil means: lowest free number first.
	random func(n uint64) uint64
	// lowest is a number below which nothing of the dynamic band is free; it
	// keeps the ordered pick from walking over what it gave out before.
	lowest uint64
}

func newSpace(size, dynamic, reserved uint64, random func(uint64) uint64) *space {
	return &space{
		size: size, dynamic: dynamic, reserved: reserved, random: random,
		owners: map[uint64]string{}, lowest: dynamic,
	}
}

// take makes owner the owner of a free number.
func (s *space) take(n uint64, owner string) {
	s.owners[n] = owner
	if n >= s.dynamic {
		s.dynamicUsed++
	}
}

func (s *space) free(n uint64) {
	if _, owned := s.owners[n]; !owned {
		return
	}
	delete(s.owners, n)
	if n >= s.dynamic {
		s.dynamicUsed--
		s.lowest = min(s.lowest, n)
	}
}

// pick finds a free number: in the dynamic band, from a random start; when
// that is full, in the static band, from its upper end.
func (s *space) pick() (uint64, bool) {
	if n, ok := s.pickDynamic(); ok {
		return n, true
	}
	for n := s.dynamic; n > s.reserved; n-- {
		if s.owners[n-1] == "" {
			return n - 1, true
		}
	}
	return 0, false
}

func (s *space) pickDynamic() (uint64, bool) {
	first := max(s.dynamic, s.reserved)
	if first >= s.size || s.dynamicUsed >= s.size-s.dynamic {
		return 0, false
	}
	width := s.size - first
	start := uint64(0)
	if s.random != nil {
		start = s.random(width)
	} else {
		start = max(s.lowest, first) - first
	}
	for i := range width {
		n := first + (start+i)%width
		if s.owners[n] != "" {
			continue
		}
		if s.random == nil {
			s.lowest = n
		}
		return n, true
	}
	return 0, false
}

// clamp returns n, but at least low and at most high.
func clamp(n, low, high uint64) uint64 { return min(max(n, low), high) }
