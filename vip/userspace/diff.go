package userspace

import (
	"context"
	"errors"
	"fmt"

	"signpost/vip"
)

var _ vip.Differ = (*Backend)(nil)

// ErrElsewhere is why a backend that has applied nothing can't tell a
// difference: the listeners belong to the process that opened them.
var ErrElsewhere = errors.New("comparing the userspace dataplane: only the running server can tell, and this is not its process")

// Diff implements [vip.Differ]. It sees what this process has opened.
func (b *Backend) Diff(_ context.Context, want *vip.State) ([]vip.Difference, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.looked {
		return nil, ErrElsewhere
	}
	return vip.DiffFrontends(b.servers, want, (*server).differs), nil
}

// differs says in words how the server is not what v asks for.
func (s *server) differs(v *vip.VirtualServer) []string {
	var list []string
	if err := s.b.unsure[s.frontend]; err != nil {
		list = append(list, fmt.Sprintf("does not work: %v", err))
	}
	current := s.current.Load()
	if current.Equal(v) {
		return list
	}
	for _, set := range []vip.Set{vip.ClusterSet, vip.LocalSet} {
		list = append(list, vip.DiffEndpoints(current.Endpoints(set), v.Endpoints(set))...)
	}
	if len(list) == 0 {
		list = append(list, "serves an older version of its service")
	}
	return list
}
