package corefile

import (
	"signpost/dnsserver"
)

// bind reads "bind ADDRESS|INTERFACE… { except ADDRESS|INTERFACE… }".
func (b *builder) bind(s *scan) {
	if s.count(1, -1, "one or more addresses or interfaces") {
		b.server.Bind = s.args
	}
	s.options(map[string]func(*scan){
		"except": func(o *scan) {
			if o.count(1, -1, "one or more addresses or interfaces") {
				b.server.BindExcept = o.args
			}
		},
	})
}

// loadbalance reads "loadbalance [round_robin]".
func (b *builder) loadbalance(s *scan) {
	s.noBody()
	if len(s.args) > 0 {
		s.oneOf("round_robin")
	}
	b.server.Block.LoadBalance = &dnsserver.LoadBalanceConfig{}
}
