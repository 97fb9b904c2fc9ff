package conformance

import "slices"

// table lists the features. What is said of a world in words stands in the
// requirement or the case that its name begins with.
func table() []feature {
	return slices.Concat(
		clusterAddresses(), otherEndpoints(), nodePortFeatures(),
		externalAddresses(), sourceRanges(), sharedAddresses(),
		externalPolicy(), internalPolicy(), emptiness(), sources())
}

const threeEndpoints = `
slice s ports=8080/P
endpoint 172.16.0.1 node=n1
endpoint 172.16.0.2 node=n1
endpoint 172.16.1.1 node=n2
`

func clusterAddresses() []feature {
	return []feature{
		{
			name:  "F-01 P-14 P-15 a cluster address, from everywhere",
			world: "service a/web ips=10.96.0.7 ports=80/P" + threeEndpoints,
			packets: `
			p3      10.96.0.7:80/P  p1 p2 q1
			p1      10.96.0.7:80/P  p1 p2 q1
			n1      10.96.0.7:80/P  p1 p2 q1 +snat
			outside 10.96.0.7:80/P  p1 p2 q1 +snat`,
		},
		{
			name: "F-02 B69 several ports: each has its own endpoints, one pod may have two",
			world: `
			service a/web ips=10.96.0.7 ports=http:80/P,alt:81/P,same:82/P,twice:83/P
			slice s ports=http:8080/P,alt:8081/P,same:8080/P,twice:8080/P
			endpoint 172.16.0.1 node=n1
			slice t ports=twice:8081/P
			endpoint 172.16.0.1 node=n1`,
			packets: `
			p3 10.96.0.7:80/P  p1
			p3 10.96.0.7:81/P  p1:8081
			p3 10.96.0.7:82/P  p1
			p3 10.96.0.7:83/P  p1 p1:8081
			p1 10.96.0.7:83/P  p1 p1:8081
			p3 10.96.0.7:84/P  refused`,
		},
		{
			name:  "F-16 B17 other ports of a cluster address and addresses that no service has are refused",
			world: "service a/web ips=10.96.0.7 ports=80/P->30080 type=NodePort" + threeEndpoints,
			packets: `
			p3      10.96.0.7:81/P    refused
			n1      10.96.0.7:81/P    refused
			outside 10.96.0.7:81/P    refused
			p3      10.96.0.7:22/P    refused
			p3      10.96.0.7:30080/P refused
			p3      10.96.0.99:80/P   refused
			n1      10.96.0.99:80/P   refused
			outside 10.96.0.99:80/P   refused`,
		},
		{
			name: "F-19 names and headless services have no addresses",
			world: `
			service a/name type=ExternalName ips=10.96.0.7 ports=80/P
			slice s ports=8080/P
			endpoint 172.16.0.1 node=n1
			service a/headless headless ports=80/P
			slice s ports=8080/P
			endpoint 172.16.0.1 node=n1`,
			packets: `
			p3 10.96.0.7:80/P     refused
			p3 172.16.0.1:8080/P  passes`,
		},
	}
}

func otherEndpoints() []feature {
	return []feature{
		{
			name: "F-01 endpoints in the hosts' own network: of this node, and of the other",
			world: `
			service a/here type=NodePort ips=10.96.0.7 ports=443/P->30443
			slice s ports=22/P
			endpoint 192.168.6.1 node=n1
			service a/there type=NodePort ips=10.96.0.8 ports=443/P->30444
			slice s ports=22/P
			endpoint 192.168.6.2 node=n2`,
			packets: `
			p3      10.96.0.7:443/P      n1:22
			n1      10.96.0.7:443/P      n1:22 +snat
			outside 10.96.0.7:443/P      n1:22 +snat
			p3      192.168.6.1:30443/P  n1:22 +snat
			n1      192.168.6.1:30443/P  n1:22 +snat
			outside 192.168.6.1:30443/P  n1:22 +snat
			p3      10.96.0.8:443/P      n2:22
			n1      10.96.0.8:443/P      n2:22 +snat
			outside 10.96.0.8:443/P      n2:22 +snat
			outside 192.168.6.1:30444/P  n2:22 +snat`,
		},
		{
			name: "P-15 the only endpoint reaches itself, also where nobody said on which node it runs",
			world: `
			service a/web ips=10.96.0.7 ports=80/P
			slice s ports=8080/P
			endpoint 172.16.0.1 node=n1
			service a/unplaced ips=10.96.0.8 ports=80/P
			slice s ports=8080/P
			endpoint 172.16.0.2`,
			packets: `
			p1 10.96.0.7:80/P  p1
			p2 10.96.0.7:80/P  p1
			p2 10.96.0.8:80/P  p2
			p1 10.96.0.8:80/P  p2`,
		},
		{
			name: "B33 hints of endpoints that are not ready are not followed",
			world: `
			service a/web ips=10.96.0.7 ports=80/P
			slice s ports=8080/P
			endpoint 172.16.0.1 node=n1
			endpoint 172.16.0.2 node=n1 notready zones=a`,
			packets: "p3 10.96.0.7:80/P p1",
		},
	}
}

func nodePortFeatures() []feature {
	const web = "service a/web type=NodePort ips=10.96.0.7 ports=80/P->30080" + threeEndpoints
	return []feature{
		{
			name:  "F-04 B45 a node port, on the node's address and no other",
			world: web,
			packets: `
			outside 192.168.6.1:30080/P  p1 p2 q1 +snat
			p3      192.168.6.1:30080/P  p1 p2 q1 +snat
			p1      192.168.6.1:30080/P  p1 p2 q1 +snat
			n1      192.168.6.1:30080/P  p1 p2 q1 +snat
			outside 192.168.7.1:30080/P  passes
			outside 192.168.6.1:22/P     passes
			outside 192.168.6.1:30081/P  passes
			p3      192.168.6.2:30080/P  passes
			outside 203.0.113.1:30080/P  passes
			n1/127.0.0.1 127.0.0.1:30080/P passes`,
		},
		{
			name: "P-22 B48 node ports on every address of the node",
			node: usualNode + " nodeports=192.168.6.1,192.168.7.1,fd00:6::1,fd00:7::1", world: web,
			packets: `
			outside 192.168.6.1:30080/P  p1 p2 q1 +snat
			outside 192.168.7.1:30080/P  p1 p2 q1 +snat
			n1      192.168.7.1:30080/P  p1 p2 q1 +snat`,
		},
		{
			name:  "P-22 no address for node ports",
			node:  "node n1 addrs=192.168.6.1,fd00:6::1 pods=172.16.0.0/16,fd00:16::/64 services=10.96.0.0/16,fd00:96::/112",
			world: web,
			packets: `
			outside 192.168.6.1:30080/P  passes
			n1      192.168.6.1:30080/P  passes
			p3      10.96.0.7:80/P       p1 p2 q1`,
		},
	}
}

// balanced is a service with an address of every kind; more fields may follow.
const balanced = "service a/web type=LoadBalancer ips=10.96.0.7 ports=80/P->30080 lb=203.0.113.1 external=198.51.100.1 "

func externalAddresses() []feature {
	return []feature{
		{
			name:  "F-06 F-07 B20 external and load-balancer addresses; their other ports are not ours",
			world: balanced + threeEndpoints,
			packets: `
			outside 198.51.100.1:80/P  p1 p2 q1 +snat
			p3      198.51.100.1:80/P  p1 p2 q1 +snat
			n1      198.51.100.1:80/P  p1 p2 q1 +snat
			outside 203.0.113.1:80/P   p1 p2 q1 +snat
			p3      203.0.113.1:80/P   p1 p2 q1 +snat
			p1      203.0.113.1:80/P   p1 p2 q1 +snat
			n1      203.0.113.1:80/P   p1 p2 q1 +snat
			outside 198.51.100.1:81/P  passes
			outside 203.0.113.1:22/P   passes
			p3      203.0.113.1:22/P   passes
			n1      203.0.113.1:22/P   passes
			outside 203.0.113.2:80/P   passes`,
		},
	}
}

func sourceRanges() []feature {
	return []feature{
		{
			name: "F-08 B37 B39 source ranges: of this address alone, for nodes and pods too",
			world: balanced + "ranges=203.0.113.0/24" + threeEndpoints + `
			service a/other type=LoadBalancer ips=10.96.0.8 ports=80/P lb=203.0.113.2
			slice s ports=8080/P
			endpoint 172.16.0.3 node=n1`,
			packets: `
			outside/203.0.113.77 203.0.113.1:80/P  p1 p2 q1 +snat
			outside              203.0.113.1:80/P  dropped
			n1                   203.0.113.1:80/P  dropped
			p3                   203.0.113.1:80/P  dropped
			outside              203.0.113.2:80/P  p3 +snat
			outside              198.51.100.1:80/P p1 p2 q1 +snat
			outside              192.168.6.1:30080/P p1 p2 q1 +snat
			p3                   10.96.0.7:80/P    p1 p2 q1`,
		},
		{
			name:  "P-18 source ranges that overlap, and one with the node in it",
			world: balanced + "ranges=203.0.113.77/32,203.0.113.0/24,192.168.6.0/24,203.0.113.0/24" + threeEndpoints,
			packets: `
			outside/203.0.113.77 203.0.113.1:80/P  p1 p2 q1 +snat
			outside/203.0.113.0  203.0.113.1:80/P  p1 p2 q1 +snat
			outside              203.0.113.1:80/P  dropped
			n1                   203.0.113.1:80/P  p1 p2 q1 +snat`,
		},
		{
			name:  "B41 source ranges of which none can be used close the address",
			world: balanced + "ranges=" + threeEndpoints,
			packets: `
			outside/203.0.113.77 203.0.113.1:80/P  dropped
			outside              203.0.113.1:80/P  dropped
			n1                   203.0.113.1:80/P  dropped
			p3                   203.0.113.1:80/P  dropped
			outside              198.51.100.1:80/P p1 p2 q1 +snat`,
		},
		{
			name:  "P-18 source ranges come before the lack of endpoints",
			world: balanced + "ranges=203.0.113.0/24",
			packets: `
			outside/203.0.113.77 203.0.113.1:80/P  refused
			outside              203.0.113.1:80/P  dropped`,
		},
	}
}

func sharedAddresses() []feature {
	return []feature{
		{
			name:  "B18 a load-balancer address that is the node's: its node ports and other ports work",
			world: "service a/web type=LoadBalancer ips=10.96.0.7 ports=80/P->30080 lb=192.168.6.1" + threeEndpoints,
			packets: `
			outside 192.168.6.1:80/P     p1 p2 q1 +snat
			outside 192.168.6.1:30080/P  p1 p2 q1 +snat
			outside 192.168.6.1:22/P     passes`,
		},
		{
			name: "P-26 X11 two services want one frontend: the older has it; other ports are shared",
			world: `
			service a/young ips=10.96.0.7 ports=one:80/P,two:81/P external=198.51.100.1 created=2026-01-02T00:00:00Z
			slice s ports=one:8080/P,two:8080/P
			endpoint 172.16.0.1 node=n1
			service a/old ips=10.96.0.8 ports=80/P external=198.51.100.1 created=2026-01-01T00:00:00Z
			slice s ports=8080/P
			endpoint 172.16.0.2 node=n1`,
			packets: `
			outside 198.51.100.1:80/P  p2 +snat
			outside 198.51.100.1:81/P  p1 +snat`,
		},
	}
}

func emptiness() []feature {
	const everywhere = `
			p3      10.96.0.7:80/P        refused
			n1      10.96.0.7:80/P        refused
			outside 10.96.0.7:80/P        refused
			p3      192.168.6.1:30080/P   refused
			n1      192.168.6.1:30080/P   refused
			outside 192.168.6.1:30080/P   refused
			p3      203.0.113.1:80/P      refused
			n1      203.0.113.1:80/P      refused
			outside 203.0.113.1:80/P      refused
			outside 198.51.100.1:80/P     refused`
	return []feature{
		{name: "B58 F-15 no endpoints: refused at once, from everywhere, by every way in", world: balanced, packets: everywhere},
		{name: "B58 P-12 the same under Local policies", world: balanced + "etp=Local itp=Local", packets: everywhere},
		{
			name:  "P-04 endpoints that don't serve are none",
			world: balanced + "\nslice s ports=8080/P\nendpoint 172.16.0.1 node=n1 notready", packets: everywhere,
		},
	}
}

// sources are the ways to tell pods from others, and masquerade-all.
func sources() []feature {
	const world = "service a/web type=NodePort ips=10.96.0.7 ports=80/P->30080 etp=Local" + threeEndpoints
	return []feature{
		{
			name: "P-14 masquerade-all", node: usualNode + " masquerade-all", world: world,
			packets: `
			p3      10.96.0.7:80/P       p1 p2 q1 +snat
			n1      10.96.0.7:80/P       p1 p2 q1 +snat
			outside 10.96.0.7:80/P       p1 p2 q1 +snat
			outside 192.168.6.1:30080/P  p1 p2`,
		},
		{
			name: "P-20 nothing tells pods from others: nobody is masqueraded, and the policy is everybody's", node: bareNode, world: world,
			packets: `
			p3      10.96.0.7:80/P       p1 p2 q1
			p1      10.96.0.7:80/P       p1 p2 q1
			n1      10.96.0.7:80/P       p1 p2 q1 +snat
			outside 10.96.0.7:80/P       p1 p2 q1
			p3      192.168.6.1:30080/P  p1 p2
			outside 192.168.6.1:30080/P  p1 p2
			n1      192.168.6.1:30080/P  p1 p2 q1 +snat`,
		},
		{
			name: "P-20 the interface tells pods from others", node: bareNode + " iface=pod", world: world,
			packets: `
			p3      10.96.0.7:80/P       p1 p2 q1
			n1      10.96.0.7:80/P       p1 p2 q1 +snat
			outside 10.96.0.7:80/P       p1 p2 q1 +snat
			p3      192.168.6.1:30080/P  p1 p2 q1
			outside 192.168.6.1:30080/P  p1 p2`,
		},
	}
}
