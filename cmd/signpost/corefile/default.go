package corefile

// Default is the Corefile of a server that is given none where there is a folder
// "manifests": the cluster that it describes, and the machine's own resolver for
// the rest.
const Default = `.:53 {
    errors
    health
    ready
    manifests manifests {
        state allocations.yaml
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }
    prometheus
    forward . /etc/resolv.conf
    loadbalance
    reload
}
`

// DefaultInCluster is the Corefile of a server that is given none and finds no
// such folder: the cluster whose pod it is.
const DefaultInCluster = `.:53 {
    errors
    health {
        lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }
    prometheus
    forward . /etc/resolv.conf
    loadbalance
    reload
}
`
