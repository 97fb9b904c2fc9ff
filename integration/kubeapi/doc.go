// Kubeapi is a real Kubernetes control plane for tests, made only of Go modules
// and in one binary, so that a test needs neither containers nor downloads of
// programs:
//
//	kubeapi etcd FLAGS...                   the etcd server
//	kubeapi apiserver FLAGS...              kube-apiserver
//	kubeapi controllers -kubeconfig FILE    the controllers of endpoints,
//	                                        EndpointSlices and namespaces
//
// Each command is one process, with the flags of the original, so that a test
// can stop and start one of them alone. There is no kubelet and no scheduler:
// a test writes the status of pods itself.
//
// The module is one of its own: what this needs is no part of signpost's
// go.mod, and nothing of signpost is in here. build.sh builds it once and keeps
// the result; the tests are in integration/kube.
package main
