package kube_test

import (
	"context"
	"fmt"

	"signpost/discovery"
	"signpost/discovery/kube"
	"signpost/integration/apistub"
)

func ExampleSource() {
	server := apistub.New(apistub.Options{})
	defer server.Close()
	server.Put(apistub.Namespace("web"), apistub.Service("web", "front", "10.96.0.20"),
		apistub.Slice("web", "front", "front-a", "10.244.0.2", "10.244.0.3"))

	source, err := kube.New(kube.Config{API: kube.API{Endpoint: server.URL()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	store := discovery.NewStore()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- source.Run(ctx, store) }()

	v, err := store.Wait(ctx, func(v *discovery.Snapshot) bool { return v.Synced })
	if err != nil {
		fmt.Println(err)
	}
	for key, service := range v.Services.All() {
		fmt.Println(key, service.ClusterIPs)
		for _, e := range service.Endpoints {
			fmt.Println(" ", e.Addr)
		}
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// web/front [10.96.0.20]
	//   10.244.0.2
	//   10.244.0.3
	// <nil>
}
