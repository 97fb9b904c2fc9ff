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
	"acl":         {anyNumber, (*builder).acl},
	"admin":       {oncePerFile, (*builder).admin},
	"any":         {oncePerBlock, (*builder).any},
	"autopath":    {oncePerBlock, (*builder).autopath},
	"bind":        {oncePerBlock, (*builder).bind},
	"bufsize":     {oncePerBlock, (*builder).bufsize},
	"cache":       {oncePerBlock, (*builder).cache},
	"dns64":       {oncePerBlock, (*builder).dns64},
	"errors":      {oncePerBlock, (*builder).errors},
	"forward":     {anyNumber, (*builder).forward},
	"health":      {oncePerBlock, (*builder).health},
	"hosts":       {oncePerBlock, (*builder).hosts},
	"kubernetes":  {oncePerBlock, (*builder).kubernetes},
	"loadbalance": {oncePerBlock, (*builder).loadbalance},
	"local":       {oncePerBlock, (*builder).local},
	"log":         {anyNumber, (*builder).log},
	"loop":        {oncePerBlock, (*builder).loop},
	"manifests":   {oncePerFile, (*builder).manifests},
	"minimal":     {oncePerBlock, (*builder).minimal},
	"prometheus":  {oncePerBlock, (*builder).prometheus},
	"ratelimit":   {oncePerBlock, (*builder).rateLimit},
	"ready":       {oncePerBlock, (*builder).ready},
	"reload":      {oncePerBlock, (*builder).reload},
	"rewrite":     {anyNumber, (*builder).rewrite},
	"template":    {anyNumber, (*builder).template},
	"tls":         {oncePerBlock, (*builder).tls},
	"transfer":    {anyNumber, (*builder).transfer},
	"vip":         {oncePerFile, (*builder).vip},
	"whoami":      {oncePerBlock, (*builder).whoami},
}

// foreign are the directives that CoreDNS knows and that stay out.
var foreign = words(`auto azure cancel chaos clouddns debug dnssec dnstap erratic etcd file geoip grpc
	grpc_server header https https3 k8s_external metadata multisocket nomad nsid on pprof proxyproto quic root
	route53 secondary shed shutdown sign startup timeouts trace tsig view`)

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
