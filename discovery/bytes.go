package discovery

// GetBytes is [Map.Get] for a key in bytes, such as the labels of a DNS query:
// it makes no strings, so it does not allocate.
func (m Map[V]) GetBytes(namespace, name []byte) (V, bool) {
	if ns := m.namespaces[string(namespace)]; ns != nil {
		v, ok := ns.entries[string(name)]
		return v, ok
	}
	var zero V
	return zero, false
}

// HasNamespaceBytes is [Map.HasNamespace] for a name in bytes. It does not
// allocate.
func (m Map[V]) HasNamespaceBytes(name []byte) bool { return m.namespaces[string(name)] != nil }

// HasNamespaceBytes is [Snapshot.HasNamespace] for a name in bytes. It does
// not allocate.
func (s *Snapshot) HasNamespaceBytes(name []byte) bool {
	return s.Namespaces[string(name)] || s.Services.HasNamespaceBytes(name) || s.Pods.HasNamespaceBytes(name)
}
