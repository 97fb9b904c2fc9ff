package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"signpost/cmd/signpost/corefile"
	"signpost/discovery"
	"signpost/discovery/kube"
	"signpost/dnsserver"
)

// apiServer is what a configuration asks of an API server, and the directive
// that it follows from.
type apiServer struct {
	config    kube.Config
	place     corefile.Place
	directive string
}

func (a *apiServer) errorf(format string, args ...any) corefile.Errors {
	return a.place.Errorf(a.directive, format, args...)
}

// findAPIServer returns what is asked of an API server where no folder of
// manifests is named; nil: nothing asks for it.
func findAPIServer(config *corefile.Config) (*apiServer, error) {
	found := &apiServer{config: kube.Config{Nodes: config.VIP != nil, Pods: slices.ContainsFunc(config.Servers, wantsPods)}}
	if v := config.VIP; v != nil {
		found.place, found.directive = v.Place, "vip"
	}
	var api corefile.API
	var errs corefile.Errors
	for _, s := range config.Servers {
		k := s.Cluster
		switch {
		case k == nil:
		case found.directive != "kubernetes" || api == (corefile.API{}):
			found.place, found.directive, api = k.Place, "kubernetes", k.API
		case k.API != api && k.API != (corefile.API{}):
			errs = append(errs, k.Errorf("kubernetes", "another API server than on line %d: must be the same, there is one source", found.place.Line)...)
		}
	}
	switch {
	case len(errs) > 0:
		return nil, errs
	case found.directive == "":
		return nil, nil //nolint:nilnil // nothing asks for it
	}
	found.config.API = reach(&api)
	return found, nil
}

// wantsPods reports whether a block answers by what it knows of pods.
func wantsPods(s *corefile.Server) bool {
	verified := s.Cluster != nil && s.Cluster.DNS.Pods == dnsserver.PodsVerified
	return verified || (s.Block.AutoPath != nil && s.Block.AutoPath.ResolvConf == "")
}

func reach(a *corefile.API) kube.API {
	return kube.API{
		Endpoint: a.Endpoint, CertFile: a.CertFile, KeyFile: a.KeyFile, CAFile: a.CAFile,
		Kubeconfig: a.Kubeconfig, Context: a.KubeconfigContext,
		QPS: a.QPS, Burst: a.Burst, MaxInFlight: a.MaxInFlight,
	}
}

// checkAPIServer reports what is wrong with how the API server is reached. A
// pod's own account can't be checked: this machine need not be that pod.
func checkAPIServer(config *corefile.Config) error {
	found, err := findAPIServer(config)
	if err != nil || found == nil || found.config.API == (kube.API{}) {
		return err
	}
	if _, err := kube.New(found.config); err != nil {
		return found.errorf("%v", err)
	}
	return nil
}

// patience is how long a command waits for the API server.
const patience = 30 * time.Second

// askAPIServer returns what an API server holds now.
func askAPIServer(ctx context.Context, config *corefile.Config, o Options) (*discovery.Snapshot, error) {
	found, err := findAPIServer(config)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, errors.New("there is no source of services in the Corefile")
	}
	found.config.Log = o.Log.With("part", "kubernetes")
	source, err := kube.New(found.config)
	if err != nil {
		return nil, found.errorf("%v", err)
	}
	store := discovery.NewStore()
	var following part
	following.run(func(ctx context.Context) { _ = source.Run(ctx, store) }) // it has no error but the context's
	defer following.stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := store.Wait(ctx, func(v *discovery.Snapshot) bool { return v.Synced })
	if err != nil {
		return nil, fmt.Errorf("asking the API server at %s: %w", source.Host(), err)
	}
	return v, nil
}
