// Package scenario tests the built program on the clusters that people draw:
// testdata/cluster has one file a scenario, each with a comment that says what
// has to happen, and all of them together are one cluster. Its nodes, its pods
// and two clients outside are hosts of a lab; signpost runs on every node. Then
// packets are sent and names are asked for.
//
// It also tests what only a process can show: that no connection fails while it
// is killed, restarted, reloaded and kept busy; that its rules outlive it; that
// "vip cleanup" leaves nothing.
//
// The program is built once, or is the one that SIGNPOST in the environment
// names. Packages beside the code test the parts.
package scenario
