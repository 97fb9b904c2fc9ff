package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"signpost/cmd/signpost/admin"
	"signpost/cmd/signpost/printer"
)

// resourceNames are the words that "get" takes, kubectl's short names among
// them, and the singular and plural of what they mean.
var resourceNames = map[string]string{
	"services": admin.Services, "service": admin.Services, "svc": admin.Services,
	"endpoints": admin.Endpoints, "endpoint": admin.Endpoints, "ep": admin.Endpoints,
	"pods": admin.Pods, "pod": admin.Pods, "po": admin.Pods,
	"records": admin.Records, "record": admin.Records, "rr": admin.Records,
	"virtualservers": admin.VirtualServers, "virtualserver": admin.VirtualServers, "vs": admin.VirtualServers,
}

const resourceList = "services (svc), endpoints (ep), pods (po), records (rr), virtualservers (vs)"

// getFlags are the flags of "get" and of whatever prints like it.
type getFlags struct {
	namespace     string
	allNamespaces bool
	output        string
}

func (f *getFlags) add(c *cobra.Command) {
	c.Flags().StringVarP(&f.namespace, "namespace", "n", "default", "the namespace to list")
	c.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "list all namespaces")
	c.Flags().StringVarP(&f.output, "output", "o", "", "wide, yaml or json")
}

func (f *getFlags) filter(name string) admin.Filter {
	if f.allNamespaces {
		return admin.Filter{Name: name}
	}
	return admin.Filter{Namespace: f.namespace, Name: name}
}

func (f *getFlags) printer(resource string) (*printer.Printer, error) {
	format, err := printer.ParseFormat(f.output)
	if err != nil {
		return nil, usageError{err}
	}
	return &printer.Printer{Resource: resource, Format: format, AllNamespaces: f.allNamespaces, Now: time.Now}, nil
}

func newGet(s streams) *cobra.Command {
	var flags getFlags
	var where adminFlags
	var watch bool
	c := &cobra.Command{
		Use:   "get RESOURCE [NAME]",
		Short: "Show what the running server knows",
		Long:  "Shows " + resourceList + "\nof the running server, which it asks over the admin socket.",
		Example: `  signpost get services -A
  signpost get svc web -n shop -o yaml
  signpost get endpoints -w`,
		Args: getArgs,
		RunE: func(c *cobra.Command, args []string) error {
			resource, name := splitResource(args)
			print, err := flags.printer(resourceNames[resource])
			if err != nil {
				return err
			}
			client, err := where.client()
			if err != nil {
				return err
			}
			defer client.Close()
			g := &getter{streams: s, client: client, printer: print, filter: flags.filter(name)}
			if watch {
				return g.watch(c.Context())
			}
			return g.list(c.Context())
		},
	}
	flags.add(c)
	where.add(c)
	c.Flags().BoolVarP(&watch, "watch", "w", false, "go on with a line for each change")
	return c
}

// splitResource reads "svc web" and "svc/web".
func splitResource(args []string) (resource, name string) {
	resource, name, _ = strings.Cut(args[0], "/")
	if len(args) > 1 {
		name = args[1]
	}
	return resource, name
}

func getArgs(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return usagef("get: must have a resource and at most one name; the resources are %s", resourceList)
	}
	if resource, _ := splitResource(args); resourceNames[resource] == "" {
		return usagef("get: unknown resource %q: must be one of %s", resource, resourceList)
	}
	return nil
}

// getter runs one "get".
type getter struct {
	streams
	client  *admin.Client
	printer *printer.Printer
	filter  admin.Filter
}

func (g *getter) list(ctx context.Context) error {
	list, err := g.client.List(ctx, g.printer.Resource, g.filter)
	if err != nil {
		return err
	}
	return show(g.streams, g.printer, list, g.filter)
}

// show prints a listing, or says in kubectl's words that there is nothing.
func show(s streams, p *printer.Printer, list *admin.List, f admin.Filter) error {
	isTable := p.Format == printer.Table || p.Format == printer.Wide
	switch {
	case len(list.Items) == 0 && f.Name != "":
		return fmt.Errorf("Error from server (NotFound): %s %q not found", p.Resource, f.Name) //nolint:staticcheck // kubectl's words
	case len(list.Items) == 0 && isTable && f.Namespace == "":
		return write(s.err, "No resources found\n")
	case len(list.Items) == 0 && isTable:
		return write(s.err, "No resources found in "+f.Namespace+" namespace.\n")
	}
	return p.List(s.out, list, f.Name != "")
}

func (g *getter) watch(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	initial := &admin.List{}
	return g.client.Watch(ctx, g.printer.Resource, g.filter, func(e admin.Event) error {
		switch {
		case initial == nil:
			return g.printer.Event(g.out, e)
		case e.Type == "BOOKMARK":
			list := initial
			initial = nil
			return g.printer.List(g.out, list, false)
		default:
			initial.Items = append(initial.Items, e.Object)
			return nil
		}
	})
}

// adminFlags say which server to ask.
type adminFlags struct {
	address string
	conf    confFlags
}

func (f *adminFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.address, "admin", "", `the server's admin socket, "unix://PATH" (default: as the Corefile says)`)
	f.conf.add(c)
}

func (f *adminFlags) client() (*admin.Client, error) {
	address := f.address
	if address == "" {
		address = f.conf.adminAddress()
	}
	if address == "" {
		return nil, usageError{errors.New("the admin socket is unknown: give --admin unix://PATH or -conf Corefile")}
	}
	client, err := admin.NewClient(address)
	if err != nil {
		return nil, usageError{err}
	}
	return client, nil
}
