package server

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"signpost/cmd/signpost/admin"
)

// records lists the records of the services that the filter chooses; without
// a filter those of the zones themselves come first.
func (s *Server) records(ctx context.Context, f admin.Filter) ([]admin.Record, error) {
	var list []admin.Record
	for _, cluster := range s.current.Load().zones.clusters {
		for r := range cluster.Records() {
			if ctx.Err() != nil {
				return nil, ctx.Err() //nolint:wrapcheck // the client went away: nobody reads it
			}
			if (f.Namespace != "" && f.Namespace != r.Service.Namespace) || (f.Name != "" && f.Name != r.Service.Name) {
				continue
			}
			list = append(list, admin.Record{
				ObjectMeta: metav1.ObjectMeta{Namespace: r.Service.Namespace, Name: r.Service.Name},
				Owner:      r.Name, TTL: r.TTL, Type: r.Type, Data: r.Data,
			})
		}
	}
	return list, nil
}
