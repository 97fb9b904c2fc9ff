package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"signpost/integration/lab"
)

// config is what the flags of "up" say.
type config struct {
	mode, manifests string
	signpost, echo  string // binaries
	v6              bool
}

func parse(args []string, errs io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("lab up", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&c.mode, "mode", "auto", "the dataplane `MODE` of signpost on each node; off: no signpost")
	flags.StringVar(&c.manifests, "manifests", "", "a `FOLDER` of manifests: its nodes and pods are built (default: two nodes, four pods, some Services)")
	flags.BoolVar(&c.v6, "v6", false, "a second address family (not with -manifests: there the manifests say)")
	flags.StringVar(&c.signpost, "signpost", "bin/signpost", "the `PATH` of the signpost binary")
	flags.StringVar(&c.echo, "echo", "bin/echo", "the `PATH` of the echo binary")
	if flags.Parse(args) != nil {
		return c, errFlags
	}
	if flags.NArg() > 0 {
		return c, errUsage
	}
	for _, path := range []*string{&c.signpost, &c.echo, &c.manifests} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return c, fmt.Errorf("finding %q: %w", *path, err)
		}
		*path = absolute
	}
	return c, nil
}

func up(ctx context.Context, name string, args []string, out, errs io.Writer) error {
	c, err := parse(args, errs)
	if err != nil {
		return err
	}
	topology := lab.Default(c.v6)
	if c.manifests != "" {
		if topology, err = lab.FromManifests(c.manifests); err != nil {
			return err
		}
	}
	l, err := lab.New(ctx, topology, lab.Options{Name: name, EchoBinary: c.echo})
	if err != nil {
		return err
	}
	if err := start(ctx, l, &c); err != nil {
		return errors.Join(err, l.Close())
	}
	defer l.Leave()
	return tell(out, l, c)
}

// start starts signpost on every node and makes the pods ask it for names.
func start(ctx context.Context, l *lab.Lab, c *config) error {
	if c.manifests == "" {
		c.manifests = filepath.Join(l.Dir, "manifests")
		if err := l.Topology.Manifests(c.manifests); err != nil {
			return err
		}
	}
	if c.mode == "off" {
		return nil
	}
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, n := range l.Topology.Nodes {
		p, err := l.Signpost(ctx, n.Name, c.signpost, l.Corefile(n.Name, c.mode, c.manifests))
		if err != nil {
			return err
		}
		if err := l.Await(ctx, n.Name, "http://127.0.0.1:8181/ready", p); err != nil {
			return err
		}
		if err := resolve(l, n); err != nil {
			return err
		}
	}
	return nil
}

func resolve(l *lab.Lab, n lab.Node) error {
	hosts := []string{n.Name}
	for _, p := range l.Topology.Pods {
		if p.Node == n.Name {
			hosts = append(hosts, p.Name)
		}
	}
	for _, h := range hosts {
		if err := l.Resolve(h, n.Addrs[0].String(), "default.svc.cluster.local", "svc.cluster.local", "cluster.local"); err != nil {
			return err
		}
	}
	return nil
}

func tell(out io.Writer, l *lab.Lab, c config) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "HOST\tKIND\tADDRESSES")
	for _, n := range l.Topology.Nodes {
		fmt.Fprintf(table, "%s\tnode\t%s\n", n.Name, words(n.Addrs))
	}
	for _, p := range l.Topology.Pods {
		fmt.Fprintf(table, "%s\tpod on %s\t%s\n", p.Name, p.Node, words(p.Addrs))
	}
	for _, h := range l.Topology.Outside {
		fmt.Fprintf(table, "%s\tclient\t%s\n", h.Name, words(h.Addrs))
	}
	fmt.Fprintf(table, "%s\tjoins them all\t\n", lab.Router)
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	client, node := lab.Router, l.Topology.Nodes[0]
	if pods := l.Topology.Pods; len(pods) > 0 {
		client = pods[0].Name
	}
	tries := []string{try(node.Name, "ip route")}
	if filepath.Dir(c.manifests) == l.Dir { // our own cluster: we know its Services
		tries = append(tries,
			try(client, "curl -s http://web/"),
			try(client, "curl -s 10.96.0.80"),
			try(client, "curl -s -m 2 10.96.0.86")+"   # refused: nobody is there",
			try("outside", "curl -s "+node.Addrs[0].String()+":30080"),
			try("outside", "curl -s "+node.Addrs[0].String()+":30081")+"   # keeps its address, but in userspace mode",
			try("outside", "curl -s 203.0.113.80"),
			try(client, "dig +search +short web SRV"))
	}
	if c.mode != "off" {
		tries = append(tries, "bin/signpost get svc -A --admin unix://"+filepath.Join(l.Dir, node.Name+".sock"))
	}
	tries = append(tries,
		"$EDITOR "+c.manifests+"   # and try again",
		"make lab-down")
	_, err := fmt.Fprintf(out, "\nTry:\n\n  %s\n\nFiles and logs are in %s.\n", strings.Join(tries, "\n  "), l.Dir)
	return err
}

func try(host, command string) string {
	return fmt.Sprintf("make lab-exec HOST=%s CMD='%s'", host, command)
}

func words[T fmt.Stringer](list []T) string {
	var out []string
	for _, v := range list {
		out = append(out, v.String())
	}
	return strings.Join(out, ", ")
}
