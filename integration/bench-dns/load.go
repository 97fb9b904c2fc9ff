package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measured is one run of dnsperf against one server.
type measured struct {
	rate   float64       // queries a second
	lost   float64       // share of the queries
	cpu    time.Duration // of the server, a query
	rcodes string        // as dnsperf writes them, without numbers
}

var (
	completedLine = regexp.MustCompile(`Queries completed:\s+(\d+)`)
	lostLine      = regexp.MustCompile(`Queries lost:\s+(\d+)`)
	rateLine      = regexp.MustCompile(`Queries per second:\s+([\d.]+)`)
	rcodeLine     = regexp.MustCompile(`Response codes:\s+(.*)`)
	rcodeShare    = regexp.MustCompile(`(\w+) \d+ \(([\d]+)[.\d]*%\)`)
	latencyLine   = regexp.MustCompile(`(?m)^> .* ([\d.]+)$`)
)

// dnsperf runs it: twenty sockets, one thread, two hundred questions in flight.
func dnsperf(ctx context.Context, port int, file string, length time.Duration, more ...string) ([]byte, error) {
	args := append([]string{
		"-s", "127.0.0.1", "-p", strconv.Itoa(port), "-d", file, "-c", "20", "-T", "1", "-q", "200",
		"-l", strconv.Itoa(int(length.Seconds())),
	}, more...)
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "dnsperf", args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running dnsperf: %w\n%s", err, tail(out.String()))
	}
	return out.Bytes(), nil
}

// tail is the end of a long text.
func tail(s string) string { return s[max(0, len(s)-1000):] }

// measure loads a server with all it can take.
func measure(ctx context.Context, p *process, file string, length time.Duration) (measured, error) {
	before, err := p.cpu()
	if err != nil {
		return measured{}, err
	}
	out, err := dnsperf(ctx, p.port, file, length)
	if err != nil {
		return measured{}, fmt.Errorf("loading %q: %w", p.name, err)
	}
	after, err := p.cpu()
	if err != nil {
		return measured{}, err
	}
	completed, lost := number(completedLine, out), number(lostLine, out)
	if completed == 0 {
		return measured{}, fmt.Errorf("loading %q: no query was answered", p.name)
	}
	return measured{
		rate: number(rateLine, out), lost: lost / (completed + lost), rcodes: rcodes(out),
		cpu: time.Duration(float64(after-before) / completed),
	}, nil
}

// number returns the number that the expression finds, else 0.
func number(re *regexp.Regexp, out []byte) float64 {
	m := re.FindSubmatch(out)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(string(m[1]), 64) // digits, by the expression
	return n
}

// rcodes are the kinds of replies and their shares in whole per cents.
func rcodes(out []byte) string {
	line := rcodeLine.FindSubmatch(out)
	if line == nil {
		return ""
	}
	var list []string
	for _, m := range rcodeShare.FindAllSubmatch(line[1], -1) {
		list = append(list, string(m[1])+" "+string(m[2])+"%")
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// latency is the time to answer at a fixed rate.
type latency struct{ p50, p99 time.Duration }

// measureLatency loads a server with rate questions a second.
func measureLatency(ctx context.Context, p *process, file string, length time.Duration, rate float64) (latency, error) {
	out, err := dnsperf(ctx, p.port, file, length, "-v", "-Q", strconv.Itoa(int(rate)))
	if err != nil {
		return latency{}, fmt.Errorf("loading %q: %w", p.name, err)
	}
	var took []time.Duration
	for _, m := range latencyLine.FindAllSubmatch(out, -1) {
		seconds, _ := strconv.ParseFloat(string(m[1]), 64) // digits, by the expression
		took = append(took, time.Duration(seconds*float64(time.Second)))
	}
	if len(took) == 0 {
		return latency{}, errors.New("measuring latency: dnsperf reported none")
	}
	slices.Sort(took)
	return latency{p50: took[len(took)/2], p99: took[len(took)*99/100]}, nil
}
