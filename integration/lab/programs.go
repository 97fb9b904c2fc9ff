package lab

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"signpost/integration/lab/echo"
)

// identities are the addresses that a pod's echo server answers on.
func (p Pod) identities() []echo.Identity {
	var list []echo.Identity
	for _, port := range p.Ports {
		for _, a := range p.Addrs {
			list = append(list, echo.Identity{Name: p.Name, Addr: netip.AddrPortFrom(a, port)})
		}
	}
	return list
}

func (l *Lab) startEcho(ctx context.Context, p Pod, binary string) error {
	ids := p.identities()
	if len(ids) == 0 {
		return nil
	}
	if binary != "" {
		args := []string{"-udp"}
		for _, id := range ids {
			args = append(args, "-pod", fmt.Sprintf("%s=%s", id.Name, id.Addr))
		}
		// Not the context's to end: the lab may be left.
		_, err := l.Start(p.Name, p.Name, l.Command(context.WithoutCancel(ctx), p.Name, binary, args...))
		return err
	}
	return l.RunIn(p.Name, func() error {
		server, err := echo.Start(ctx, echo.Config{Identities: ids, UDP: true})
		if err == nil {
			l.keep(server)
		}
		return err
	})
}

// Signpost starts a signpost binary on a host with a Corefile. Files that the
// Corefile names should be in the lab's folder: hosts share the file system.
func (l *Lab) Signpost(ctx context.Context, host, binary, corefile string) (*Process, error) {
	path := filepath.Join(l.Dir, host+".Corefile")
	if err := os.WriteFile(path, []byte(corefile), 0o644); err != nil {
		return nil, fmt.Errorf("starting signpost on %q: %w", host, err)
	}
	cmd := l.Command(context.WithoutCancel(ctx), host, binary, "serve", "-conf", path)
	cmd.Dir = l.Dir
	return l.Start(host, host+".signpost", cmd)
}
