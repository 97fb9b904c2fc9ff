// Package kube runs signpost against a real Kubernetes API server: the program
// as it is built, with kubeadm's Corefile, a service account of its own and
// exactly the rights that deploy/rbac.yaml gives.
//
//	test ──objects──> kube-apiserver ──list, watch──> relay ──> signpost serve ──answers──> test
//	                  etcd, controllers               (a test cuts it, or
//	                  (integration/kubeapi)            lets nobody through)
//
// KUBEAPI in the environment names the control plane's binary;
// `make integration-kube` builds it first. Without it the tests are skipped, or
// fail where REQUIRE_KUBE is set. Those of the dataplane need root besides.
//
// What it does not: it has no cluster's nodes. There is no kubelet, so the tests
// write the status of pods themselves; what an API server does wrong in ways that
// a real one hardly can is tested with integration/apistub.
package kube
