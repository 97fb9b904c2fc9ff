package probe

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"signpost/discovery"
)

// BenchmarkSetOneChange is a Set of 10,000 pods of which one changed.
func BenchmarkSetOneChange(b *testing.B) {
	p := start(quiet(), func(discovery.Key, bool) {}, newScripted(always(nil)))
	defer p.Close()
	pods := make([]*corev1.Pod, 10_000)
	for i := range pods {
		pods[i] = newPod(fmt.Sprint("pod-", i), times(3600, 0, 0, 0, 0))
	}
	p.Set(pods)
	b.ReportAllocs()
	for b.Loop() {
		pods[7] = newPod("pod-7", times(3600, 0, 0, 0, 0))
		p.Set(pods)
	}
}
