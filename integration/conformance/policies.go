package conformance

func externalPolicy() []feature {
	const local = balanced + "etp=Local "
	return []feature{
		{
			name: "B27 B48 P-13 external policy Local: by every way in the local pod, which sees the client",
			world: local + `
			slice s ports=8080/P
			endpoint 172.16.0.1 node=n1
			endpoint 172.16.1.1 node=n2`,
			packets: `
			outside 203.0.113.1:80/P      p1
			outside 198.51.100.1:80/P     p1
			outside 192.168.6.1:30080/P   p1
			p3      203.0.113.1:80/P      p1 q1
			p1      203.0.113.1:80/P      p1 q1
			p3      192.168.6.1:30080/P   p1 q1
			n1      203.0.113.1:80/P      p1 q1 +snat
			n1      192.168.6.1:30080/P   p1 q1 +snat
			outside 10.96.0.7:80/P        p1 q1 +snat`,
		},
		{
			name: "B28 P-12 P-13 external policy Local, endpoints elsewhere: pods and the node get there, others hear nothing",
			world: local + `
			slice s ports=8080/P
			endpoint 172.16.1.1 node=n2`,
			packets: `
			p3      203.0.113.1:80/P      q1
			n1      203.0.113.1:80/P      q1 +snat
			p3      198.51.100.1:80/P     q1
			n1      192.168.6.1:30080/P   q1 +snat
			outside 203.0.113.1:80/P      dropped
			outside 198.51.100.1:80/P     dropped
			outside 192.168.6.1:30080/P   dropped
			outside 10.96.0.7:80/P        q1 +snat`,
		},
		{
			name: "P-13 P-18 external policy Local and source ranges",
			world: local + "ranges=203.0.113.0/24" + `
			slice s ports=8080/P
			endpoint 172.16.0.1 node=n1
			endpoint 172.16.1.1 node=n2`,
			packets: `
			outside/203.0.113.77 203.0.113.1:80/P  p1
			outside              203.0.113.1:80/P  dropped
			p3                   203.0.113.1:80/P  dropped`,
		},
	}
}

func internalPolicy() []feature {
	return []feature{
		{
			name: "F-11 internal policy Local: only pods of this node",
			world: `
			service a/web type=NodePort ips=10.96.0.7 ports=80/P->30080 itp=Local
			slice s ports=8080/P
			endpoint 172.16.0.1 node=n1
			endpoint 172.16.1.1 node=n2`,
			packets: `
			p3      10.96.0.7:80/P       p1
			p1      10.96.0.7:80/P       p1
			n1      10.96.0.7:80/P       p1 +snat
			outside 192.168.6.1:30080/P  p1 q1 +snat`,
		},
		{
			name: "B30 internal policy Local without a local endpoint: dropped, not sent elsewhere",
			world: `
			service a/web ips=10.96.0.7 ports=80/P itp=Local
			slice s ports=8080/P
			endpoint 172.16.1.1 node=n2`,
			packets: `
			p3 10.96.0.7:80/P dropped
			n1 10.96.0.7:80/P dropped`,
		},
		{
			name: "F-13 terminating endpoints serve while there is no other; each set for itself",
			world: `
			service a/web type=NodePort ips=10.96.0.7 ports=80/P->30080 etp=Local
			slice s ports=8080/P
			endpoint 172.16.0.1 node=n1 terminating
			endpoint 172.16.0.2 node=n1 notready
			endpoint 172.16.1.1 node=n2
			service a/last ips=10.96.0.8 ports=80/P
			slice s ports=8080/P
			endpoint 172.16.0.3 node=n1 terminating
			endpoint 172.16.0.4 node=n1 notready terminating`,
			packets: `
			outside 192.168.6.1:30080/P  p1
			p3      10.96.0.7:80/P       q1
			p4      10.96.0.8:80/P       p3`,
		},
	}
}
