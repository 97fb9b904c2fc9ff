package dnsserver

import (
	"bytes"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"signpost/discovery"
)

var update = flag.Bool("update", false, "rewrite the transcripts under testdata")

// TestClusterTranscripts runs the transcripts. Each is an archive of
//
//	config          directives, one a line (see directive)
//	upstream.zone   what everyone else's DNS says
//	manifests.yaml  the cluster; later ones replace it as a whole
//	transcript      questions "> NAME TYPE", each with the reply; the comment
//	                before a question names the requirement or case
func TestClusterTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/cluster/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			runTranscript(t, archive)
			if !*update {
				return
			}
			if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func runTranscript(t *testing.T, archive *txtar.Archive) {
	config, upstream := ClusterConfig{TTL: DefaultTTL}, &fakeUpstream{}
	synced, resolves := true, true
	var cluster *Cluster
	var store *discovery.Store
	for i, file := range archive.Files {
		switch name, _, _ := strings.Cut(file.Name, " "); name {
		case "config":
			for line := range strings.Lines(string(file.Data)) {
				switch words := strings.Fields(line); words[0] {
				case "unsynced":
					synced = false
				case "noresolver":
					resolves = false
				default:
					directive(t, &config, upstream, words)
				}
			}
		case "upstream.zone":
			upstream.records = readZone(t, file.Data)
		case "manifests.yaml":
			if cluster == nil {
				if resolves {
					config.Resolve = upstream.resolve
				}
				cluster, store = newTestCluster(t, config)
			}
			if synced {
				store.Update((*discovery.Tx).MarkSynced)
			}
			cluster.update(readWorld(t, file.Data).publish(store))
		case "transcript":
			archive.Files[i].Data = runQuestions(t, cluster.Middleware(upstream), file.Data)
		default:
			t.Fatalf("unknown file %q", file.Name)
		}
	}
}

// directive reads one line of a transcript's config.
func directive(t *testing.T, c *ClusterConfig, u *fakeUpstream, words []string) {
	t.Helper()
	args := words[1:]
	switch words[0] {
	case "zones":
		c.Zones = args
	case "multicluster":
		c.Multicluster = args
	case "ttl":
		fmt.Sscan(args[0], &c.TTL)
	case "pods":
		c.Pods = map[string]PodMode{"disabled": PodsDisabled, "insecure": PodsInsecure, "verified": PodsVerified}[args[0]]
	case "endpoint_pod_names":
		c.EndpointPodNames = true
	case "noendpoints":
		c.NoEndpoints = true
	case "ignore_empty_service":
		c.IgnoreEmptyService = true
	case "literal_cname":
		c.LiteralCNAME = true
	case "ptr_hostname_only":
		c.PTRHostnameOnly = true
	case "namespaces":
		c.Namespaces = args
	case "labels":
		c.Labels = hasLabel(args[0])
	case "namespace_labels":
		c.NamespaceLabels = hasLabel(args[0])
	case "fallthrough":
		c.Fallthrough = args
	case "private_reverse":
		for _, a := range args {
			c.PrivateReverse = append(c.PrivateReverse, netip.MustParsePrefix(a))
		}
	case "addrs":
		var addrs []netip.Addr
		for _, a := range args {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		c.Addrs = func() []netip.Addr { return addrs }
	case "recursion":
		c.RecursionAvailable = true
	case "servfail":
		u.servfail = map[string]bool{args[0]: true}
	case "refused":
		u.refused = map[string]bool{args[0]: true}
	case "truncated":
		u.truncated = map[string]bool{args[0]: true}
	default:
		t.Fatalf("unknown directive %q", words[0])
	}
}

func hasLabel(text string) func(map[string]string) bool {
	k, v, _ := strings.Cut(text, "=")
	return func(labels map[string]string) bool { return labels[k] == v }
}

func readZone(t *testing.T, text []byte) []dns.RR {
	t.Helper()
	var records []dns.RR
	parser := dns.NewZoneParser(bytes.NewReader(text), ".", "upstream.zone")
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		records = append(records, rr)
	}
	if err := parser.Err(); err != nil {
		t.Fatal(err)
	}
	return records
}

// runQuestions asks the questions and compares, or rewrites, the replies.
func runQuestions(t *testing.T, h dns.Handler, transcript []byte) []byte {
	var out strings.Builder
	title, question, want := "", "", ""
	finish := func() {
		if question == "" {
			return
		}
		words := strings.Fields(question)
		got := show(ask(h, words[0], words[1]))
		out.WriteString("> " + question + "\n" + got + "\n")
		t.Run(title, func(t *testing.T) {
			if !*update && strings.TrimSpace(want) != strings.TrimSpace(got) {
				t.Errorf("%s\n%s\nwant:\n%s", question, got, want)
			}
		})
		question, want = "", ""
	}
	for line := range strings.Lines(string(transcript)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
			finish()
			title = strings.TrimSpace(line[1:])
			out.WriteString(line + "\n")
		case strings.HasPrefix(line, "> "):
			finish()
			question = line[2:]
		default:
			want += line + "\n"
		}
	}
	finish()
	return []byte(strings.TrimSuffix(out.String(), "\n"))
}
