package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// mix is one kind of load.
type mix struct {
	name string
	// flavours are the configurations to try it with.
	flavours []string
	lines    func(services int) []string
}

// The flavours of configuration.
const (
	plain   = "plain"   // the cluster zones alone
	cached  = "cache"   // with "cache 30" and an upstream
	kubeadm = "kubeadm" // kubeadm's default Corefile
)

// mixes are the loads that matter to clusters.
func mixes() []mix {
	return []mix{
		{"clusterip-a", []string{plain, cached, kubeadm}, perService(func(i int) []string { return []string{name(i) + " A"} })},
		{"a-aaaa", []string{plain}, perService(func(i int) []string { return []string{name(i) + " A", name(i) + " AAAA"} })},
		{"search", []string{plain}, perService(searchWalk)},
		{"headless-10", []string{plain}, headless(10)},
		{"headless-100", []string{plain}, headless(100)},
		{"headless-1000", []string{plain}, headless(1000)},
		{"srv", []string{plain}, perService(func(i int) []string { return []string{"_http._tcp." + name(i) + " SRV"} })},
		{"ptr", []string{plain}, perService(reverseName)},
		{"external", []string{cached}, external},
	}
}

func name(i int) string { return serviceName(i) + "." + serviceSpace(i) + ".svc.cluster.local" }

// perService asks for every service, in random order, the same in every run.
func perService(lines func(i int) []string) func(int) []string {
	return func(services int) []string {
		var all []string
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(services) {
			all = append(all, lines(i)...)
		}
		return all
	}
}

// searchWalk is what a resolver with ndots:5 asks before it asks for an
// external name, for both families.
func searchWalk(i int) []string {
	var lines []string
	for _, suffix := range []string{serviceSpace(i) + ".svc.cluster.local", "svc.cluster.local", "cluster.local"} {
		for _, qtype := range []string{" A", " AAAA"} {
			lines = append(lines, fmt.Sprintf("www%d.example.com.%s%s", i, suffix, qtype))
		}
	}
	return lines
}

func reverseName(i int) []string {
	o := clusterIP(i).As4()
	return []string{fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa PTR", o[3], o[2], o[1], o[0])}
}

func headless(n int) func(int) []string {
	return func(int) []string { return []string{fmt.Sprintf("headless-%d.ns-0.svc.cluster.local A", n)} }
}

// external asks for a hundred names that aren't the cluster's.
func external(int) []string {
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("host%d.example.com A", i))
	}
	return lines
}

// file is the mix as dnsperf reads it.
func (m mix) file(services int) []byte {
	return []byte(strings.Join(m.lines(services), "\n") + "\n")
}

// sampled is how many of a mix's questions tell how large its replies are.
const sampled = 200

// replySize is the mean size of a server's replies to a mix in octets.
func replySize(port int, lines []string) (int, error) {
	conn, err := dns.Dial("udp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return 0, fmt.Errorf("asking for sizes: %w", err)
	}
	defer func() { _ = conn.Close() }()                    // nothing is buffered
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // a read will tell
	lines = lines[:min(len(lines), sampled)]
	total := 0
	for _, line := range lines {
		qname, qtype, _ := strings.Cut(line, " ")
		if err := conn.WriteMsg(new(dns.Msg).SetQuestion(dns.Fqdn(qname), dns.StringToType[qtype])); err != nil {
			return 0, fmt.Errorf("asking for sizes: %w", err)
		}
		buf := make([]byte, dns.MaxMsgSize)
		n, err := conn.Read(buf)
		if err != nil {
			return 0, fmt.Errorf("asking for sizes: %w", err)
		}
		total += n
	}
	return total / len(lines), nil
}
