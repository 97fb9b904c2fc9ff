package corefile

// Default is the Corefile of a server that is given none: the cluster that the
// folder "manifests" describes, and the machine's own resolver for the rest.
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
