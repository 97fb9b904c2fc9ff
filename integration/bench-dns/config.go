package main

import (
	"fmt"
	"strings"
)

// configuration makes the Corefile of a flavour. The source is the line that
// only one of the two servers knows: where its objects come from.
type configuration struct {
	port, metrics int
	// inside is a line of the kubernetes block, outside one of the server's.
	inside, outside string
	upstream        string
}

// corefile writes it out.
func (c configuration) corefile(flavour string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(".:%d {", c.port)
	line("    bind 127.0.0.1\n    errors")
	if c.outside != "" {
		line("    %s", c.outside)
	}
	line("    kubernetes cluster.local in-addr.arpa ip6.arpa {")
	if c.inside != "" {
		line("        %s", c.inside)
	}
	line("        pods insecure\n        fallthrough in-addr.arpa ip6.arpa\n        ttl 30\n    }")
	line("    prometheus 127.0.0.1:%d\n    loadbalance", c.metrics)
	switch flavour {
	case cached:
		line("    forward . %s\n    cache 30", c.upstream)
	case kubeadm:
		line("    forward . %s {\n        max_concurrent 1000\n    }", c.upstream)
		line("    cache 30 {\n        disable success cluster.local\n        disable denial cluster.local\n    }")
		line("    loop\n    reload")
	}
	line("}")
	return b.String()
}
