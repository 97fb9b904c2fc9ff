package userspace_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"

	"signpost/discovery"
	"signpost/vip"
	"signpost/vip/userspace"
)

func Example() {
	endpoint, err := net.Listen("tcp", "127.1.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer endpoint.Close()

	backend := userspace.New(userspace.Config{})
	defer backend.Close()
	web := &vip.VirtualServer{
		Frontend: vip.Frontend{Addr: netip.MustParseAddr("127.96.251.1"), Port: 8080, Protocol: discovery.TCP},
		Owner:    discovery.Key{Namespace: "default", Name: "web"},
		Cluster:  []vip.Endpoint{{AddrPort: endpoint.Addr().(*net.TCPAddr).AddrPort()}},
	}
	want := vip.NewState(&vip.Node{}, &vip.ServicePlan{Owner: web.Owner, Servers: []*vip.VirtualServer{web}})
	if err := backend.Apply(context.Background(), nil, want); err != nil {
		fmt.Println(err)
		return
	}

	client, err := net.Dial("tcp", "127.96.251.1:8080")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	server, err := endpoint.Accept()
	if err != nil {
		fmt.Println(err)
		return
	}
	io.WriteString(server, "hello from the endpoint")
	server.Close()
	answer, _ := io.ReadAll(client)
	fmt.Println(string(answer))
	// Output: hello from the endpoint
}
