package hygiene

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dnsCases names the tests of each known bug of cluster DNS: files from the
// root of the repository, with the test's name or, in a transcript, the case's.
// Cases of others than the DNS server are in their own packages.
var dnsCases = map[string][]string{
	"A2":  {"dnsserver/testdata/cluster/tree.txtar#A2"},
	"A3":  {"dnsserver/testdata/cluster/tree.txtar#A3"},
	"A4":  {"dnsserver/testdata/cluster/headless.txtar#A4"},
	"A5":  {"dnsserver/testdata/cluster/headless.txtar#A5"},
	"A6":  {"dnsserver/testdata/cluster/headless.txtar#A6"},
	"A7":  {"dnsserver/testdata/cluster/clusterip.txtar#A7", "integration/resolver/resolver_test.go#A7"},
	"A9":  {"dnsserver/testdata/cluster/externalname.txtar#A9", "dnsserver/testdata/cluster/externalname-fallthrough.txtar#A9"},
	"A10": {"dnsserver/testdata/cluster/externalname.txtar#A10"},
	"A11": {"dnsserver/testdata/cluster/ignore-empty.txtar#A11"},
	"A12": {"dnsserver/testdata/cluster/externalname.txtar#A12"},
	"A14": {"dnsserver/testdata/cluster/externalname.txtar#A14"},
	"A15": {"dnsserver/testdata/cluster/headless.txtar#A15"},
	"A16": {"dnsserver/testdata/cluster/clusterip.txtar#A16", "dnsserver/testdata/cluster/tree.txtar#A16"},
	"A17": {"dnsserver/testdata/cluster/headless.txtar#A17"},
	"A19": {"dnsserver/testdata/cluster/clusterip.txtar#A19"},
	"A21": {"dnsserver/testdata/cluster/reverse.txtar#A21", "dnsserver/testdata/cluster/reverse-hostname.txtar#A21"},
	"A22": {"dnsserver/testdata/cluster/reverse.txtar#A22"},
	"A23": {"dnsserver/testdata/cluster/reverse-fallthrough.txtar#A23"},
	"A24": {"dnsserver/testdata/cluster/headless.txtar#A24"},
	"A25": {"dnsserver/testdata/cluster/headless.txtar#A25"},
	"A26": {"dnsserver/testdata/cluster/headless.txtar#A26"},
	"A27": {"dnsserver/testdata/cluster/headless.txtar#A27"},
	"A29": {"dnsserver/cluster_server_test.go#TestClusterBehindServer"},
	"A31": {"dnsserver/cache_test.go#TestCacheKey"},
	"A32": {"dnsserver/cacherefresh_test.go#TestCacheStale"},
	"A33": {"dnsserver/testdata/cluster/changes.txtar#A33"},
	"A34": {"dnsserver/testdata/cluster/changes.txtar#A34"},
	"A35": {"dnsserver/testdata/cluster/unsynced.txtar#A35"},
	"A36": {"discovery/kube/outage_test.go#TestServerComesLate"},
	"A38": {"discovery/kube/memory_test.go#TestRelistMemory"},
	"A40": {"dnsserver/cluster_test.go#TestQueriesDuringChanges"},
	"A41": {"dnsserver/udp_test.go#TestOverload", "dnsserver/dnscases_test.go#TestFloodMemory", "integration/flood/flood_test.go#TestFlood"},
	"A42": {"dnsserver/dnscases_test.go#TestSocketPerCore"},
	"A44": {"dnsserver/autopath_test.go#TestAutoPathIdentity", "dnsserver/autopath_test.go#TestAutoPath"},
	"A45": {"dnsserver/links_test.go#TestACL", "dnsserver/dnscases_test.go#TestACLBeforeCache"},
	"A47": {"dnsserver/tcp_test.go#TestTCPIdle"},
	"A49": {"dnsserver/dnscases_test.go#TestParallelFamilies", "integration/resolver/resolver_test.go#A49"},
	"A50": {"dnsserver/server_test.go#TestShutdownUnderLoad", "cmd/signpost/server/server_test.go#TestLameduck"},
	"A52": {"dnsserver/server_reload_test.go#TestReloadLosesNothing", "dnsserver/server_reload_test.go#TestReloadKeepsCounters"},
	"A53": {"docs/dns-cases.md#A53"},
	"A55": {"dnsserver/testdata/cluster/clusterip.txtar#A55"},
	"A56": {"dnsserver/cluster_test.go#A56"},
	"A58": {"dnsserver/testdata/cluster/tree.txtar#A58", "dnsserver/testdata/cluster/externalname-fallthrough.txtar#A58"},

	"B1":  {"dnsserver/testdata/cluster/tree.txtar#B1"},
	"B2":  {"dnsserver/testdata/cluster/tree.txtar#B2"},
	"B3":  {"dnsserver/testdata/cluster/tree.txtar#B3"},
	"B4":  {"dnsserver/testdata/cluster/clusterip.txtar#B4", "dnsserver/testdata/cluster/headless.txtar#B4"},
	"B5":  {"dnsserver/testdata/cluster/clusterip.txtar#B5", "dnsserver/testdata/cluster/headless.txtar#B5"},
	"B6":  {"dnsserver/testdata/cluster/clusterip.txtar#B6"},
	"B7":  {"dnsserver/testdata/cluster/pods-insecure.txtar#B7", "dnsserver/testdata/cluster/pods-verified.txtar#B7"},
	"B8":  {"dnsserver/testdata/cluster/tree.txtar#B8"},
	"B9":  {"dnsserver/testdata/cluster/clusterip.txtar#B9"},
	"B10": {"dnsserver/testdata/cluster/headless.txtar#B10"},
	"B11": {"dnsserver/testdata/cluster/headless.txtar#B11", "dnsserver/testdata/cluster/clusterip.txtar#B11"},
	"B12": {"dnsserver/testdata/cluster/externalname.txtar#B12"},
	"B13": {"dnsserver/testdata/cluster/headless.txtar#B13"},
	"B14": {"dnsserver/testdata/cluster/headless.txtar#B14"},
	"B15": {"dnsserver/testdata/cluster/pods-verified.txtar#B15"},
	"B16": {"dnsserver/testdata/cluster/reverse.txtar#B16"},
	"B17": {"dnsserver/testdata/cluster/externalname.txtar#B17"},
	"B18": {"dnsserver/testdata/cluster/externalname.txtar#B18"},
	"B19": {"dnsserver/testdata/cluster/externalname.txtar#B19"},
	"B20": {"dnsserver/wire_test.go#B20"},
	"B21": {"dnsserver/wire_test.go#B21"},
	"B22": {"dnsserver/wire_test.go#B22"},
	"B23": {"dnsserver/cookie_test.go#TestCookies"},
	"B24": {"dnsserver/wire_test.go#B24"},
	"B25": {"dnsserver/testdata/cluster/changes.txtar#B25"},
	"B26": {"dnsserver/testdata/cluster/headless.txtar#B26"},
	"B27": {"dnsserver/testdata/cluster/unsynced.txtar#B27"},
	"B28": {"dnsserver/truncate_test.go#B28"},
	"B29": {"dnsserver/testdata/cluster/multicluster.txtar#B29"},
	"B30": {"dnsserver/cluster_test.go#TestManyChangesInOneSecond"},
}

// noDNSCases are the numbers that the list doesn't use.
const noDNSCases = "A1 A8 A13 A18 A20 A28 A30 A37 A39 A43 A46 A48 A51 A54 A57 "

// TestDNSCases checks that each known bug has a test, and that it is there.
func TestDNSCases(t *testing.T) {
	t.Parallel()
	for part, last := range map[string]int{"A": 58, "B": 30} {
		for n := 1; n <= last; n++ {
			id := fmt.Sprintf("%s%d", part, n)
			tests := dnsCases[id]
			if unused := strings.Contains(noDNSCases, id+" "); unused != (len(tests) == 0) {
				t.Errorf("case %s: %d tests", id, len(tests))
			}
			for _, test := range tests {
				if err := testExists(test); err != nil {
					t.Errorf("case %s: %v", id, err)
				}
			}
		}
	}
}

// testExists looks a test up: "file#name".
func testExists(test string) error {
	file, name, _ := strings.Cut(test, "#")
	text, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		return err
	}
	pattern := `\b` + name + `\b`
	if strings.HasPrefix(name, "Test") {
		pattern = `(?m)^func ` + name + `\(`
	}
	if !regexp.MustCompile(pattern).Match(text) {
		return fmt.Errorf("%s has no %s", file, name)
	}
	return nil
}
