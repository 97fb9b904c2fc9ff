package ipvs

import (
	"slices"
	"testing"

	"signpost/vip/sysctl"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	names := func(strictARP bool, kernel string) []string {
		var list []string
		for _, s := range settings(strictARP, kernel) {
			list = append(list, s.Name)
		}
		return list
	}
	if list := names(false, "6.1.0"); !slices.Contains(list, "net/ipv4/vs/conntrack") || len(list) != 3 {
		t.Errorf("I-02 settings: got %v", list)
	}
	if list := names(true, "4.19.0"); !slices.Contains(list, "net/ipv4/vs/conn_reuse_mode") || !slices.Contains(list, "net/ipv4/conf/all/arp_ignore") {
		t.Errorf("settings for strict ARP on an old kernel: got %v", list)
	}
	if slices.ContainsFunc(settings(true, "5.8"), func(s sysctl.Setting) bool { return s.Why == "" }) {
		t.Error("a setting without a reason")
	}
}

func TestReuseDelays(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]bool{
		"3.16.0": false, "4.1.0": true, "4.19.0-27-amd64": true, "5.8": true, "5.9.0": false, "6.1.192": false, "6-rc": false, "": false,
	} {
		if got := reuseDelays(release); got != want {
			t.Errorf("kernel %q: got %t, want %t", release, got, want)
		}
	}
}
