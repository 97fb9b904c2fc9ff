package hygiene

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the module's top folder.
const root = "../.."

// source is one parsed Go file.
type source struct {
	path    string // relative to root, with slashes
	pkg     string // folder, relative to root
	test    bool
	syntax  *ast.File
	imports []string
}

func sources(t *testing.T) []source {
	t.Helper()
	var files []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() && path != root {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir // a module of its own
			}
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		files = append(files, parse(t, path))
		return nil
	})
	if err != nil || len(files) < 100 {
		t.Fatalf("found %d Go files: %v", len(files), err)
	}
	return files
}

func parse(t *testing.T, path string) source {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	relative := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
	s := source{path: relative, pkg: filepath.ToSlash(filepath.Dir(relative)), test: strings.HasSuffix(path, "_test.go"), syntax: file}
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		s.imports = append(s.imports, name)
	}
	return s
}

// TestImportDirections holds the directions that keep the design what it is.
// Tests may look anywhere.
func TestImportDirections(t *testing.T) {
	t.Parallel()
	within := func(dirs ...string) func(source) bool {
		return func(s source) bool {
			return slices.ContainsFunc(dirs, func(d string) bool { return s.pkg == d || strings.HasPrefix(s.pkg, d+"/") })
		}
	}
	outside := func(dirs ...string) func(source) bool { return func(s source) bool { return !within(dirs...)(s) } }
	exactly := func(dir string) func(source) bool { return func(s source) bool { return s.pkg == dir } }
	files := sources(t)
	for _, rule := range []struct {
		why       string
		files     func(source) bool
		forbidden string // regular expression on the import path
	}{
		{"the model knows no library and no consumer", exactly("discovery"), `\.|^signpost/(vip|dnsserver|cmd)`},
		{"allocation needs nothing", exactly("discovery/allocator"), `\.`},
		{"sources know no consumer", within("discovery"), `^signpost/(vip|dnsserver|cmd|integration)`},
		{"DNS knows no dataplane", within("dnsserver"), `^signpost/(vip|cmd|integration)|^k8s\.io/`},
		{"the dataplane knows no DNS", within("vip"), `^signpost/(dnsserver|cmd|integration)|^k8s\.io/`},
		{"backends don't know each other", within("vip/nftables"), `^signpost/vip/(iptables|ipvs|userspace)`},
		{"backends don't know each other", within("vip/iptables"), `^signpost/vip/(nftables|ipvs|userspace)`},
		{"backends don't know each other", within("vip/ipvs"), `^signpost/vip/(nftables|iptables|userspace)`},
		{"backends don't know each other", within("vip/userspace"), `^signpost/vip/(nftables|iptables|ipvs)`},
		{"only dnsserver speaks DNS", outside("dnsserver", "integration"), `^github\.com/miekg/dns$`},
		{"only discovery/kube speaks to an API server", outside("discovery/kube", "integration"), `^k8s\.io/client-go`},
		{"only vip/ipvs speaks to IPVS", outside("vip/ipvs"), `^github\.com/moby/ipvs`},
		{"nothing imports cmd", outside("cmd"), `^signpost/cmd`},
	} {
		forbidden := regexp.MustCompile(rule.forbidden)
		for _, s := range files {
			if s.test || !rule.files(s) {
				continue
			}
			for _, name := range s.imports {
				if forbidden.MatchString(name) {
					t.Errorf("%s imports %q: %s", s.path, name, rule.why)
				}
			}
		}
	}
}

// TestPackageComments wants one package comment in each package, and that it
// begins as go doc expects.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	comments := map[string][]string{}
	names := map[string]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		names[s.pkg] = s.syntax.Name.Name
		if s.syntax.Doc.Text() != "" { // a directive alone has none
			comments[s.pkg] = append(comments[s.pkg], s.syntax.Doc.Text())
		}
	}
	for pkg, name := range names {
		begin := "Package " + name + " "
		if name == "main" {
			begin = "" // a command's comment begins with its name
		}
		if len(comments[pkg]) != 1 || !strings.HasPrefix(comments[pkg][0], begin) {
			t.Errorf("%s: want one package comment that begins with %q, got %q", pkg, begin, comments[pkg])
		}
	}
}

// TestTopFolders: only these hold code.
func TestTopFolders(t *testing.T) {
	t.Parallel()
	allowed := []string{"cmd", "discovery", "dnsserver", "integration", "vip"}
	for _, s := range sources(t) {
		if top, _, _ := strings.Cut(s.path, "/"); !slices.Contains(allowed, top) {
			t.Errorf("%s: code belongs into one of %v", s.path, allowed)
		}
	}
}

// TestNoOpenEnds: what is not done is not in the code.
func TestNoOpenEnds(t *testing.T) {
	t.Parallel()
	open := regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	for _, s := range sources(t) {
		if s.pkg == "integration/hygiene" {
			continue
		}
		for _, group := range s.syntax.Comments {
			if open.MatchString(group.Text()) {
				t.Errorf("%s: a comment leaves something open: %q", s.path, group.Text())
			}
		}
	}
}
