package probe

import "container/heap"

// queue orders the waiting probes by due time.
type queue []*probe

var _ heap.Interface = (*queue)(nil)

// Len is part of heap.Interface.
func (q *queue) Len() int { return len(*q) }

// Less is part of heap.Interface.
func (q *queue) Less(i, j int) bool { return (*q)[i].due.Before((*q)[j].due) }

// Swap is part of heap.Interface.
func (q *queue) Swap(i, j int) {
	(*q)[i], (*q)[j] = (*q)[j], (*q)[i]
	(*q)[i].index, (*q)[j].index = i, j
}

// Push is part of heap.Interface.
func (q *queue) Push(x any) {
	p := x.(*probe) //nolint:errcheck // it is private to this package
	p.index = len(*q)
	*q = append(*q, p)
}

// Pop is part of heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	p.index = -1
	return p
}
