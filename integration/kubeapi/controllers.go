package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

const (
	workers = 5
	// What kube-controller-manager has as defaults.
	perSlice    = 100
	perSubset   = 1000
	nsResync    = 5 * time.Minute
	protobuf    = "application/vnd.kubernetes.protobuf"
	clientQPS   = 1000
	clientBurst = 2 * clientQPS
)

// runControllers runs the controllers until ctx ends.
func runControllers(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %q: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the metadata client: %w", err)
	}
	typed := rest.CopyConfig(config)
	typed.ContentType = protobuf
	client, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	controllers := newControllers(ctx, client, meta, factory)
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	var group sync.WaitGroup
	for _, run := range controllers {
		group.Go(func() { run(ctx, workers) })
	}
	group.Wait()
	return nil
}

// newControllers makes the controllers whose work signpost sees: the slices of
// Services with a selector, the Endpoints of old, the slices that mirror
// Endpoints written by hand, and the emptying of namespaces.
func newControllers(
	ctx context.Context, client kubernetes.Interface, meta metadata.Interface, factory informers.SharedInformerFactory,
) []func(context.Context, int) {
	core, slices := factory.Core().V1(), factory.Discovery().V1().EndpointSlices()
	pods, services, nodes, endpoints := core.Pods(), core.Services(), core.Nodes(), core.Endpoints()
	resources := client.Discovery().ServerPreferredNamespacedResources
	return []func(context.Context, int){
		endpointslice.NewController(ctx, pods, services, nodes, slices, perSlice, client, 0).Run,
		endpoint.NewEndpointController(ctx, pods, services, endpoints, client, 0).Run,
		endpointslicemirroring.NewController(ctx, endpoints, slices, services, perSubset, client, 0).Run,
		namespace.NewNamespaceController(ctx, client, meta, resources, core.Namespaces(), nsResync, corev1.FinalizerKubernetes).Run,
	}
}
