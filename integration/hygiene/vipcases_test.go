package hygiene

import (
	"fmt"
	"strings"
	"testing"
)

// vipCases names the tests of each known bug of dataplanes (B) and of each
// fault that they have to survive (X), as dnsCases does. Those that the page
// docs/vip-cases.md has something to say of are in it, too.
var vipCases = map[string][]string{
	"B01": {"vip/ipvs/backend_test.go#B01", "integration/conformance/life.go#outlives"},
	"B03": {"vip/ipvs/backend_test.go#B03"},
	"B04": {"vip/ipvs/vipcases_test.go#TestScaleDown", "vip/ipvs/settings_test.go#TestReuseDelays", "docs/vip-cases.md#B04"},
	"B06": {"vip/ipvs/backend_test.go#B06", "integration/conformance/live.go#restarts"},
	"B07": {"vip/controller_test.go#B07", "vip/ipvs/kernel_test.go#TestKernelHung"},
	"B08": {"vip/ipvs/vipcases_test.go#TestAffinityEnds", "integration/conformance/affinity.go#B36"},
	"B10": {"discovery/kube/dial_linux_test.go#TestDeadConnections", "discovery/kube/config_test.go#TestReaches"},
	"B11": {"vip/ipvs/backend_test.go#B11"},
	"B13": {"vip/ipvs/vipcases_test.go#TestProbeReadsBack"},
	"B14": {"vip/ipvs/backend_test.go#B14", "vip/ipvs/backend_test.go#I-04"},
	"B16": {"vip/ipvs/backend_test.go#B16"},
	"B17": {"integration/conformance/table.go#B17", "vip/ipvs/kernel_test.go#TestKernelGuardsTwice"},
	"B18": {"integration/conformance/table.go#B18", "vip/viptest/packets_test.go#B18"},
	"B20": {"integration/conformance/table.go#B20"},
	"B21": {"integration/conformance/table.go#F-01", "vip/ipvs/kernel_test.go#TestKernelRefusesTheNode"},
	"B22": {"vip/iptables/vipcases_test.go#TestClosedForwarding", "vip/iptables/neighbours_test.go#TestForeignRules", "docs/vip-cases.md#B22"},
	"B24": {"integration/conformance/hostports.go#B24", "vip/iptables/vipcases_test.go#TestHostPort", "docs/vip-cases.md#B24"},
	"B25": {"vip/ipvs/backend_test.go#I-09", "docs/vip-cases.md#B25"},
	"B27": {"integration/conformance/policies.go#B27", "vip/testdata/policies.txtar#B27", "vip/viptest/packets_test.go#B27"},
	"B28": {"integration/conformance/policies.go#B28", "vip/testdata/policies.txtar#B28", "vip/userspace/source_test.go#B28"},
	"B30": {"integration/conformance/policies.go#B30", "vip/testdata/policies.txtar#B30", "vip/userspace/source_test.go#B30"},
	"B32": {"vip/healthcheck/server_test.go#B32", "cmd/signpost/kernel_services_test.go#B32"},
	"B33": {"integration/conformance/table.go#B33", "vip/testdata/endpoints.txtar#B33"},
	"B35": {"integration/conformance/affinity.go#B35", "vip/userspace/source_test.go#B35"},
	"B36": {"integration/conformance/affinity.go#B36", "vip/userspace/source_test.go#B36"},
	"B37": {"integration/conformance/table.go#B37", "vip/viptest/packets_test.go#B37"},
	"B39": {"integration/conformance/table.go#B39", "vip/viptest/packets_test.go#B39"},
	"B41": {"integration/conformance/table.go#B41", "vip/testdata/external.txtar#B41"},
	"B42": {"vip/viptest/packets_test.go#B42", "vip/userspace/apply_test.go#TestNodePort"},
	"B44": {"integration/conformance/life.go#B44", "vip/iptables/localhost_test.go#TestLocalhostNodePort"},
	"B45": {"integration/conformance/table.go#B45", "vip/iptables/localhost_test.go#TestLocalhostNodePort"},
	"B46": {"discovery/allocator/allocator_test.go#B46"},
	"B48": {"integration/conformance/policies.go#B48", "docs/vip-cases.md#B48"},
	"B49": {"integration/scenario/udp_test.go#B49", "vip/conntrack/reconciler_test.go#B49", "vip/userspace/udp_test.go#TestUDPEndpointGoes"},
	"B51": {"integration/scenario/udp_test.go#B51", "vip/conntrack/reconciler_test.go#B51"},
	"B52": {"integration/scenario/udp_test.go#B52", "vip/conntrack/reconciler_test.go#B52"},
	"B53": {"integration/scenario/udp_test.go#B53", "cmd/signpost/kernel_udp_test.go#B53"},
	"B55": {"vip/conntrack/vipcases_test.go#TestTCPIsLeftAlone"},
	"B56": {"integration/conformance/window.go#B56", "vip/iptables/localhost_test.go#TestLiberalConntrack", "vip/sysctl/sysctl_test.go#TestConntrackLimits", "docs/vip-cases.md#B56"},
	"B58": {"integration/conformance/table.go#B58", "vip/iptables/neighbours_test.go#TestForeignRules", "vip/ipvs/kernel_test.go#B58"},
	"B59": {"vip/controller_test.go#B59", "vip/iptables/faults_test.go#TestRefusedRule", "vip/nftables/adopt_test.go#TestFaultIsolation"},
	"B60": {"vip/nftables/adopt_test.go#TestFaultIsolation", "vip/iptables/faults_test.go#TestConvergesThroughFailures"},
	"B62": {"vip/ipvs/kernel_test.go#TestKernelForeignServers", "vip/ipvs/backend_test.go#B62", "integration/conformance/strangers.go#B62"},
	"B63": {"integration/conformance/nftables_test.go#B63", "vip/internal/ruleset/watch_test.go#B63", "vip/iptables/neighbours_test.go#TestWatch"},
	"B65": {"integration/conformance/life.go#B65", "vip/iptables/neighbours_test.go#TestLeftovers", "cmd/signpost/kernel_services_test.go#TestLeftovers"},
	"B66": {"vip/nftables/adopt_test.go#TestForeignTables", "integration/conformance/strangers.go#B66"},
	"B67": {"vip/nftables/adopt_test.go#TestOneOfMany"},
	"B69": {"integration/conformance/table.go#B69", "vip/testdata/endpoints.txtar#B69"},
	"B70": {"discovery/endpoints/slices_test.go#B70", "discovery/endpoints/legacy_test.go#B70"},
	"B71": {"discovery/endpoints/slices_test.go#B71", "discovery/endpoints/legacy_test.go#B71"},
	"B73": {"discovery/endpoints/slices_test.go#B73"},
	"B74": {"discovery/endpoints/mirror_test.go#B74"},
	"B76": {"discovery/allocator/allocator_test.go#B76", "discovery/manifest/world_test.go#TestDualStack"},
	"B77": {"vip/testdata/external.txtar#B77"},
	"B79": {"vip/nodeaddrs/source_test.go#B79"},

	"X01": {"vip/iptables/faults_test.go#TestLockHeld", "vip/controller_test.go#B07"},
	"X02": {"integration/conformance/nftables_test.go#X02", "integration/conformance/ipvs_test.go#X02", "integration/conformance/userspace_test.go#X02", "vip/iptables/neighbours_test.go#TestWatch", "integration/scenario/live_test.go#X02"},
	"X03": {"integration/conformance/nftables_test.go#X03", "vip/ipvs/backend_test.go#X03", "vip/ipvs/glance_test.go#X03", "vip/iptables/neighbours_test.go#TestWatch"},
	"X04": {"vip/ipvs/backend_test.go#X04", "vip/iptables/faults_test.go#TestRefusedRule", "docs/vip-cases.md#X04"},
	"X05": {"vip/nftables/ruleset_test.go#X05", "vip/ipvs/backend_test.go#X05", "vip/nodeaddrs/source_test.go#X05", "vip/iptables/faults_test.go#TestConvergesThroughFailures"},
	"X06": {"vip/iptables/faults_test.go#TestHungCommand", "vip/ipvs/kernel_test.go#TestKernelHung", "vip/controller_test.go#B07"},
	"X07": {"vip/iptables/faults_test.go#TestEndings", "vip/iptables/faults_test.go#TestParsing", "vip/iptables/choice_test.go#TestMissingCommands"},
	"X08": {"discovery/kube/outage_test.go#TestGap", "discovery/kube/outage_test.go#TestOutage", "discovery/kube/outage_test.go#TestBadLists", "docs/vip-cases.md#X08"},
	"X09": {"discovery/kube/source_test.go#X09", "discovery/kube/source_test.go#TestDeleteAndAdd", "discovery/kube/source_test.go#TestStorm"},
	"X10": {"discovery/convert/service_test.go#X10", "discovery/convert/slice_test.go#X10", "discovery/convert/validateothers_test.go#X10", "vip/iptables/faults_test.go#TestComments"},
	"X11": {"integration/conformance/table.go#X11", "vip/testdata/external.txtar#X11"},
	"X12": {"vip/clock_test.go#TestHealthClock", "vip/ipvs/vipcases_test.go#TestDrainClock", "discovery/kube/metrics_test.go#TestFutureTrigger", "cmd/signpost/server/kubeproxy_test.go#TestKubeproxyMetrics", "docs/vip-cases.md#X12"},
	"X13": {"vip/ipvs/backend_test.go#TestCrash", "vip/nftables/adopt_test.go#TestAdopt", "vip/userspace/local_test.go#TestRestartAdopts", "discovery/manifest/source_test.go#TestKill", "integration/scenario/live_test.go#TestLiveNftables"},
	"X14": {"vip/nftables/adopt_test.go#X14", "vip/iptables/neighbours_test.go#TestLeftovers", "vip/userspace/local_test.go#TestRestartAdopts", "vip/ipvs/kernel_test.go#TestKernelAdopts"},
	"X15": {"vip/rivals/rivals_test.go#TestFind", "cmd/signpost/kernel_services_test.go#TestKubeProxyPort", "cmd/signpost/kernel_services_test.go#TestSecondSignpost", "docs/vip-cases.md#X15"},
	"X16": {"vip/sysctl/sysctl_test.go#TestReadOnly", "vip/userspace/udp_test.go#TestUDPLimit", "vip/userspace/tcp_test.go#TestTCPLimit", "discovery/manifest/source_test.go#TestStateCannotBeSaved", "docs/vip-cases.md#X16"},
	"X17": {"vip/nodeaddrs/resolve_test.go#X17", "vip/iptables/choice_test.go#TestMissingCommands", "vip/ipvs/kernel_test.go#TestKernelWithoutIPv6"},
	"X18": {"vip/nftables/ruleset_test.go#TestProbeWithoutPrivilege", "vip/userspace/local_test.go#TestWithoutPrivilege"},
	"X19": {"vip/nftables/adopt_test.go#TestExtremes", "vip/nftables/adopt_test.go#TestNodePortsTimesAddresses", "vip/bench_test.go#BenchmarkPlanExtremes"},
	"X20": {"vip/nftables/adopt_test.go#TestFlapping", "integration/conformance/live.go#churn", "integration/scenario/live_test.go#TestLiveNftables"},
	"X21": {"vip/healthcheck/server_test.go#TestFaults", "vip/healthcheck/server_test.go#TestMoves"},
	"X22": {"cmd/signpost/kernel_services_test.go#TestModeChange", "integration/scenario/leave_test.go#TestLeaveIPVS", "docs/vip-cases.md#X22"},
	"X23": {"discovery/convert/service_test.go#X23", "discovery/kube/source_test.go#X23", "vip/testdata/services.txtar#X23"},
	"X24": {"vip/iptables/choice_test.go#TestChoice"},
}

// noVIPCases are the numbers that the list doesn't use.
const noVIPCases = "B02 B05 B09 B12 B15 B19 B23 B26 B29 B31 B34 B38 B40 B43 B47 B50 B54 B57 B61 B64 B68 B72 B75 B78 "

// TestVIPCases checks that each known bug and fault has a test, and that it is
// there.
func TestVIPCases(t *testing.T) {
	t.Parallel()
	for part, last := range map[string]int{"B": 79, "X": 24} {
		for n := 1; n <= last; n++ {
			id := fmt.Sprintf("%s%02d", part, n)
			tests := vipCases[id]
			if unused := strings.Contains(noVIPCases, id+" "); unused != (len(tests) == 0) {
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
