package corefile

import (
	"maps"
	"slices"
	"strings"
)

// how often a directive may stand.
type times uint8

const (
	oncePerBlock times = iota
	oncePerFile
	anyNumber
)

// directive is one word of the Corefile.
type directive struct {
	times times
	read  func(*builder, *scan)
}

// directives is the whole language.
var directives = map[string]directive{
	"admin":       {oncePerFile, (*builder).admin},
	"bind":        {oncePerBlock, (*builder).bind},
	"errors":      {oncePerBlock, (*builder).errors},
	"forward":     {anyNumber, (*builder).forward},
	"health":      {oncePerBlock, (*builder).health},
	"kubernetes":  {oncePerBlock, (*builder).kubernetes},
	"loadbalance": {oncePerBlock, (*builder).loadbalance},
	"log":         {oncePerBlock, (*builder).log},
	"manifests":   {oncePerFile, (*builder).manifests},
	"prometheus":  {oncePerBlock, (*builder).prometheus},
	"ready":       {oncePerBlock, (*builder).ready},
	"reload":      {oncePerBlock, (*builder).reload},
	"vip":         {oncePerFile, (*builder).vip},
}

// later are the directives that are not built yet.
var later = words(`acl any autopath bufsize cache dns64 hosts local loop minimal rewrite template tls whoami`)

// foreign are the directives that CoreDNS knows and that stay out.
var foreign = words(`auto azure cancel chaos clouddns debug dnssec dnstap erratic etcd file geoip grpc
	grpc_server header https https3 k8s_external metadata multisocket nomad nsid on pprof proxyproto quic root
	route53 secondary shed shutdown sign startup timeouts trace transfer tsig view`)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// refusal says why a word is no directive.
func refusal(name string) string {
	switch {
	case later[name]:
		return "not supported yet: remove this line"
	case foreign[name]:
		return "unknown directive: coredns knows it, signpost does not: remove this line"
	default:
		return "unknown directive: must be one of import, " + strings.Join(Directives(), ", ")
	}
}

// laterOptions refuses options that are not built yet.
func laterOptions(names ...string) map[string]func(*scan) {
	refused := map[string]func(*scan){}
	for _, name := range names {
		refused[name] = func(o *scan) { o.errorf("is not supported yet: remove this line"); o.body = nil }
	}
	return refused
}

// Directives returns the names of all directives, sorted.
func Directives() []string { return slices.Sorted(maps.Keys(directives)) }
