package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"signpost/integration/apistub"
	"signpost/integration/lab"
)

// The servers.
const (
	signpost = "signpost"     // from the folder
	viaAPI   = "signpost API" // from the API server, for the late part
	peer     = "CoreDNS"
	bare     = "bare loop"
)

// bench is the servers under test and what they live on.
type bench struct {
	o        *options
	dir      string
	api      *apistub.Server
	upstream string
	servers  map[string]*process // by name and flavour
	stops    []func()
	// lateRounds counts those of the late part, to keep their objects apart.
	lateRounds int
}

// newBench makes the cluster and serves it.
func newBench(o *options, dir string) (*bench, error) {
	b := &bench{o: o, dir: dir, servers: map[string]*process{}}
	c := newCluster(o.services)
	if err := c.write(filepath.Join(dir, "manifests")); err != nil {
		return nil, err
	}
	b.api = apistub.New(apistub.Options{})
	b.api.Put(c.objects()...)
	b.stops = append(b.stops, b.api.Close)
	upstream, stop, err := serveUpstream()
	if err != nil {
		b.close()
		return nil, err
	}
	b.upstream, b.stops = upstream, append(b.stops, stop)
	return b, nil
}

// close ends everything.
func (b *bench) close() {
	for _, p := range b.servers {
		p.stop()
	}
	for _, stop := range b.stops {
		stop()
	}
}

// end ends one server.
func (b *bench) end(p *process) {
	p.stop()
	maps.DeleteFunc(b.servers, func(_ string, other *process) bool { return other == p })
}

// server returns a server, started if need be. The bare loop's flavour is the
// size of its replies.
func (b *bench) server(ctx context.Context, name, flavour string) (*process, error) {
	key := strings.ReplaceAll(name+"-"+flavour, " ", "-")
	if p := b.servers[key]; p != nil {
		return p, nil
	}
	port, err := lab.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	argv, err := b.command(ctx, name, flavour, key, port)
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, name, port, filepath.Join(b.dir, key+".log"), argv...)
	if err != nil {
		return nil, err
	}
	b.servers[key] = p
	return p, nil
}

// command is a server's command line.
func (b *bench) command(ctx context.Context, name, flavour, key string, port int) ([]string, error) {
	if name == bare {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("finding this program: %w", err)
		}
		return []string{self, "-bare", fmt.Sprintf("127.0.0.1:%d", port), "-bare-size", flavour}, nil
	}
	metrics, err := lab.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	c := configuration{port: port, metrics: metrics, upstream: b.upstream}
	file := filepath.Join(b.dir, key+".Corefile")
	argv := []string{b.o.coredns, "-conf", file}
	if name == signpost {
		c.outside = fmt.Sprintf("manifests %s {\n        service_cidr 10.96.0.0/16\n    }\n    ", filepath.Join(b.dir, "manifests"))
	} else {
		c.inside = "endpoint " + b.api.URL()
	}
	if name != peer {
		c.outside += "admin unix://" + filepath.Join(b.dir, key) + ".sock"
		argv = []string{b.o.signpost, "serve", "-conf", file}
	}
	if argv[0], err = filepath.Abs(argv[0]); err != nil {
		return nil, fmt.Errorf("finding %q: %w", argv[0], err)
	}
	if err := os.WriteFile(file, []byte(c.corefile(flavour)), 0o644); err != nil {
		return nil, fmt.Errorf("writing a Corefile: %w", err)
	}
	return argv, nil
}

// run runs every mix that was asked for.
func (b *bench) run(ctx context.Context) error {
	r := newReport(b.o)
	for _, m := range mixes() {
		if !wanted(b.o.mixes, m.name) {
			continue
		}
		file := filepath.Join(b.dir, m.name)
		if err := os.WriteFile(file, m.file(b.o.services), 0o644); err != nil {
			return fmt.Errorf("writing a mix: %w", err)
		}
		for _, flavour := range m.flavours {
			if !wanted(b.o.flavours, flavour) {
				continue
			}
			row, err := b.row(ctx, m, flavour, file)
			if err != nil {
				return fmt.Errorf("mix %q, %s: %w", m.name, flavour, err)
			}
			r.add(row)
		}
	}
	r.memory(b.servers)
	return nil
}

// wanted reports whether a list from the command line has the name.
func wanted(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// row measures one mix with one flavour, the servers in turn.
func (b *bench) row(ctx context.Context, m mix, flavour, file string) (*row, error) {
	r := &row{mix: m.name, flavour: flavour, runs: map[string][]measured{}, latency: map[string]latency{}}
	ours, err := b.server(ctx, signpost, flavour)
	if err != nil {
		return nil, err
	}
	size, err := replySize(ours.port, m.lines(b.o.services))
	if err != nil {
		return nil, err
	}
	theirs, err := b.server(ctx, peer, flavour)
	if err != nil {
		return nil, err
	}
	floor, err := b.server(ctx, bare, strconv.Itoa(size))
	if err != nil {
		return nil, err
	}
	for range b.o.rounds {
		for _, p := range []*process{theirs, ours, floor} {
			got, err := measure(ctx, p, file, b.o.length)
			if err != nil {
				return nil, err
			}
			r.runs[p.name] = append(r.runs[p.name], got)
		}
	}
	b.end(floor)
	return r, b.latencies(ctx, r, file)
}

// latencies fills in a row's latencies.
func (b *bench) latencies(ctx context.Context, r *row, file string) error {
	for _, name := range []string{peer, signpost} {
		p, err := b.server(ctx, name, r.flavour)
		if err != nil {
			return err
		}
		if r.latency[name], err = measureLatency(ctx, p, file, b.o.length, r.best(peer)/2); err != nil {
			return err
		}
	}
	return nil
}
