package convert

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// warnings collects what a conversion had to leave out, in the words of a
// validation: field path, value, reason.
type warnings []string

func (w *warnings) invalid(path *field.Path, value any, reason string) {
	*w = append(*w, field.Invalid(path, value, reason).Error())
}

// from takes over the warnings about a slice, which they name.
func (w *warnings) from(s *discoveryv1.EndpointSlice, others []string) {
	for _, o := range others {
		*w = append(*w, `EndpointSlice "`+KeyOf(s).String()+`": `+o)
	}
}
