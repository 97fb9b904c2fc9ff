package ipvs

import (
	"log/slog"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"signpost/vip/sysctl"
)

// settings lists the kernel settings that this mode relies on (I-02). They
// belong to the network namespace.
func settings(strictARP bool, kernel string) []sysctl.Setting {
	list := []sysctl.Setting{
		{Name: "net/ipv4/vs/conntrack", Value: 1, Why: "what IPVS forwards can be masqueraded"},
		{Name: "net/ipv4/vs/expire_nodest_conn", Value: 1, Why: "clients leave endpoints that are gone"},
		{Name: "net/ipv4/vs/expire_quiescent_template", Value: 1, Why: "session affinity ends with the endpoint"},
	}
	if reuseDelays(kernel) {
		list = append(list, sysctl.Setting{Name: "net/ipv4/vs/conn_reuse_mode", Optional: true, Why: "a client port used again costs a second otherwise"})
	}
	if strictARP {
		list = append(list,
			sysctl.Setting{Name: "net/ipv4/conf/all/arp_ignore", Value: 1, Why: "this node does not answer for cluster addresses on its networks"},
			sysctl.Setting{Name: "net/ipv4/conf/all/arp_announce", Value: 2, Why: "this node does not name cluster addresses on its networks"})
	}
	return list
}

// adjust makes the settings so. What fails is told once, not at every look: a
// container's /proc may be read-only, and somebody else has to do it there.
func (b *Backend) adjust() {
	log := b.log
	if b.settingsFailed {
		log = slog.New(slog.DiscardHandler)
	}
	b.settingsFailed = sysctl.Ensure(sysctl.Root, settings(b.config.StrictARP, kernelRelease()), log) != nil
}

// reuseDelays reports whether the kernel drops the first packet of a client
// port used again, from 4.1 to before 5.9.
func reuseDelays(kernel string) bool {
	major, minor, ok := kernelVersion(kernel)
	version := major*1000 + minor
	return ok && version >= 4001 && version < 5009
}

func kernelVersion(release string) (major, minor int, ok bool) {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	digits, _, _ := strings.Cut(parts[1], "-")
	minor, err2 := strconv.Atoi(digits)
	return major, minor, err == nil && err2 == nil
}

func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}
