package corefile

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata")

// TestCorpus reads each archive of testdata: a Corefile and what it imports,
// then either the lines of its errors or what it means.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding testdata: %v, %d files", err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			corpusFile(t, file)
		})
	}
}

func corpusFile(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("SIGNPOST_TEST_PORT", "5353")
	for _, f := range archive.Files {
		if err := os.WriteFile(f.Name, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := Load("Corefile", Options{})
	got := strings.ReplaceAll(outcome(config, err), dir, "DIR")
	expected := &archive.Files[len(archive.Files)-1]
	if *update {
		expected.Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(expected.Data), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func outcome(c *Config, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, s := range c.Servers {
		fmt.Fprintf(&b, "block %s:%d %v", s.File, s.Line, s.Addresses)
		if len(s.Bind) > 0 {
			fmt.Fprintf(&b, " bind %q except %q", s.Bind, s.BindExcept)
		}
		fmt.Fprintf(&b, "\n  errors=%t metrics=%t loadbalance=%t\n", s.Block.Errors, s.Block.Metrics, s.Block.LoadBalance != nil)
		for _, q := range s.Block.Logs {
			fmt.Fprintf(&b, "  log %+v\n", q)
		}
		if k := s.Cluster; k != nil {
			shown := k.DNS
			fmt.Fprintf(&b, "  selects %t %t\n", shown.Labels != nil, shown.NamespaceLabels != nil)
			shown.Labels, shown.NamespaceLabels = nil, nil
			fmt.Fprintf(&b, "  kubernetes %+v api=%+v\n", shown, k.API)
		}
		for _, rule := range s.Block.Consolidate {
			fmt.Fprintf(&b, "  consolidate %+v\n", rule)
		}
		if s.Block.Loop {
			fmt.Fprintln(&b, "  loop")
		}
		if s.Block.Cache != nil {
			fmt.Fprintf(&b, "  cache %+v\n", *s.Block.Cache)
		}
		for _, f := range s.Block.Forwards {
			fmt.Fprintf(&b, "  forward %+v\n", f)
		}
		links(&b, s)
	}
	if c.Manifests != nil {
		fmt.Fprintf(&b, "manifests %+v\n", *c.Manifests)
	}
	if c.VIP != nil {
		fmt.Fprintf(&b, "vip %+v\n", *c.VIP)
	}
	fmt.Fprintf(&b, "health=%q lameduck=%s ready=%q metrics=%q reload=%+v admin=%q\n",
		c.Health, c.Lameduck, c.Ready, c.Metrics, c.Reload, c.Admin)
	return b.String()
}

// links writes what else is in the chain.
func links(b *strings.Builder, s *Server) {
	d := &s.Block
	if d.MinimalANY || d.Minimal || d.Whoami || d.MaxUDPSize != 0 {
		fmt.Fprintf(b, "  any=%t minimal=%t whoami=%t bufsize=%d\n", d.MinimalANY, d.Minimal, d.Whoami, d.MaxUDPSize)
	}
	for _, r := range d.ACL {
		fmt.Fprintf(b, "  acl %+v\n", r)
	}
	for _, r := range d.Rewrites {
		fmt.Fprintf(b, "  rewrite %+v\n", r)
	}
	for _, r := range d.Templates {
		failure := r.Error
		r.Error = nil
		fmt.Fprintf(b, "  template %+v\n", r)
		if failure != nil {
			fmt.Fprintf(b, "    ederror %+v\n", *failure)
		}
	}
	for _, r := range d.Transfers {
		fmt.Fprintf(b, "  transfer %+v\n", r)
	}
	if h := d.Hosts; h != nil {
		fmt.Fprintf(b, "  hosts file=%q inline=%q zones=%q no_reverse=%t fallthrough=%q %t", h.File, h.Inline, h.Zones, h.NoReverse, h.Fallthrough, h.FallthroughUnsupported)
		if h.TTL != nil {
			fmt.Fprintf(b, " ttl=%d", *h.TTL)
		}
		if h.Reload != nil {
			fmt.Fprintf(b, " reload=%s", *h.Reload)
		}
		fmt.Fprintln(b)
	}
	if r := d.RateLimit; r != nil {
		slip := -1
		if r.Slip != nil {
			slip = *r.Slip
		}
		shown := *r
		shown.Slip = nil
		fmt.Fprintf(b, "  ratelimit %+v slip=%d\n", shown, slip)
	}
	if d.Local != nil {
		fmt.Fprintf(b, "  local %+v\n", *d.Local)
	}
	if d.DNS64 != nil {
		fmt.Fprintf(b, "  dns64 %+v\n", *d.DNS64)
	}
	if d.AutoPath != nil {
		fmt.Fprintf(b, "  autopath %+v\n", *d.AutoPath)
	}
	if s.TLS != nil {
		fmt.Fprintf(b, "  tls %+v\n", *s.TLS)
	}
}
