package rivals

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"signpost/vip/viptest"
)

// TestAskProxyMode is L-08: another kube-proxy on this node.
func TestAskProxyMode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		text   string
		want   string
	}{
		{"kube-proxy", http.StatusOK, "iptables\n", "iptables"},
		{"somebody else", http.StatusOK, "<html>", ""},
		{"somebody without modes", http.StatusNotFound, "iptables", ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			fmt.Fprint(w, tt.text)
		}))
		if got := askProxyMode(t.Context(), server.URL); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		server.Close()
		if got := askProxyMode(t.Context(), server.URL); got != "" {
			t.Errorf("nobody answers: got %q", got)
		}
	}
}

// TestFind is X15: foreign rules and devices.
func TestFind(t *testing.T) {
	viptest.InNamespace(t)
	if got := Find(t.Context()); len(got) != 0 {
		t.Errorf("in an empty namespace: %v", got)
	}
	for _, command := range []string{
		"nft add table ip kube-proxy", "nft add chain ip kube-proxy services", "nft add chain ip kube-proxy more",
		"nft add table ip nat", "nft add chain ip nat KUBE-SERVICES", "nft add chain ip nat KUBE-KUBELET-CANARY",
		"ip link add kube-ipvs0 type veth peer name peer0", // any type: there may be no dummy device
	} {
		words := strings.Fields(command)
		if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	var signs []string
	for _, r := range Find(t.Context()) {
		signs = append(signs, r.Sign)
		if r.Remedy == "" {
			t.Errorf("%s: no remedy", r.Sign)
		}
	}
	got, want := strings.Join(signs, "\n"), `rules of kube-proxy: table "kube-proxy" of nftables
rules of kube-proxy: chain KUBE-SERVICES in table "nat" of iptables
virtual addresses of kube-proxy: device kube-ipvs0`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
