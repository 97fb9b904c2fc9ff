package ipvs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// procSys holds the settings of the calling thread's network namespace.
const procSys = "/proc/sys/net"

// sysctl is a kernel setting that this mode relies on (I-02).
type sysctl struct {
	name, value string
	why         string
	optional    bool // kernels exist that don't have it
}

// settings lists what has to be set. They belong to the network namespace.
func settings(v6, strictARP bool, kernel string) []sysctl {
	list := []sysctl{
		{name: "ipv4/vs/conntrack", value: "1", why: "else nothing that IPVS forwards is masqueraded"},
		{name: "ipv4/vs/expire_nodest_conn", value: "1", why: "else clients stay with endpoints that are gone"},
		{name: "ipv4/vs/expire_quiescent_template", value: "1", why: "else session affinity leads to endpoints that are gone"},
		{name: "ipv4/ip_forward", value: "1", why: "else no packet reaches an endpoint elsewhere"},
	}
	if reuseDelays(kernel) {
		list = append(list, sysctl{name: "ipv4/vs/conn_reuse_mode", value: "0", why: "else a client port used again costs a second", optional: true})
	}
	if v6 {
		list = append(list, sysctl{name: "ipv6/conf/all/forwarding", value: "1", why: "else no packet reaches an IPv6 endpoint elsewhere", optional: true})
	}
	if strictARP {
		list = append(list,
			sysctl{name: "ipv4/conf/all/arp_ignore", value: "1", why: "else this node answers for cluster addresses on its networks"},
			sysctl{name: "ipv4/conf/all/arp_announce", value: "2", why: "else this node names cluster addresses on its networks"})
	}
	return list
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

// adjust sets what is not as it has to be under root, and says in one line
// what it changed, and in another what it could not: a container's /proc may
// be read-only, and somebody else may have to do it there.
func adjust(root string, list []sysctl, log *slog.Logger) {
	var changed, failed []string
	for _, s := range list {
		done, err := s.set(root)
		switch {
		case err != nil && s.optional && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			failed = append(failed, fmt.Sprintf("%s=%s (%s): %v", s.name, s.value, s.why, err))
		case done:
			changed = append(changed, s.name+"="+s.value)
		}
	}
	if len(changed) > 0 {
		log.Info("kernel settings changed for ipvs mode", "settings", strings.Join(changed, " "))
	}
	if len(failed) > 0 {
		log.Warn("kernel settings can't be changed: set them from outside of the container", "settings", strings.Join(failed, "; "))
	}
}

// set writes a setting if it has another value.
func (s sysctl) set(root string) (changed bool, err error) {
	path := filepath.Join(root, s.name)
	now, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("reading: %w", errors.Unwrap(err))
	}
	if strings.TrimSpace(string(now)) == s.value {
		return false, nil
	}
	if err := os.WriteFile(path, []byte(s.value), 0o644); err != nil { //nolint:gosec // a setting is for all to read
		return false, fmt.Errorf("writing: %w", errors.Unwrap(err))
	}
	return true, nil
}
