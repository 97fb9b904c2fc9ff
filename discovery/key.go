package discovery

import "strings"

// Key names a namespaced object: a service, a pod.
type Key struct {
	Namespace string
	Name      string
}

// String returns "namespace/name", as kubectl and the API server's messages do.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then by name.
func (k Key) Compare(other Key) int {
	if c := strings.Compare(k.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, other.Name)
}
