package ipvs

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signpost/vip"
)

const tableText = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600007:0050 rr persistent 1080000 FFFFFFFF
  -> AC100101:1F90      Masq    1      3          4         
  -> AC100201:1F90      Masq    0      0          0         
UDP  [fd00:0096:0000:0000:0000:0000:0000:0007]:0035 sh 
  -> [fd00:0016:0000:0000:0000:0000:0000:0001]:0035      Masq    1      0          0         
FWM  00012800 wlc 
  -> AC100201:1F90      Masq    1      0          0         
GRE  0A600007:0050 rr 
`

func TestReadGlance(t *testing.T) {
	t.Parallel()
	got, err := readGlance(strings.NewReader(tableText))
	if err != nil {
		t.Fatal(err)
	}
	want := glance{
		{frontend: mustFrontend(t, "10.96.0.7:80/TCP")}: {
			scheduler: "rr", persistent: true, destinations: []destination{
				{mustAddrPort("172.16.1.1:8080"), 1, 7}, {mustAddrPort("172.16.2.1:8080"), 0, 0},
			},
		},
		{frontend: mustFrontend(t, "[fd00:96::7]:53/UDP")}: {scheduler: "sh", destinations: []destination{{mustAddrPort("[fd00:16::1]:53"), 1, 0}}},
		{mark: 0x12800}: {scheduler: "wlc", destinations: []destination{{mustAddrPort("172.16.2.1:8080"), 1, 0}}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(serverKey{}, glanced{}, destination{}),
		cmp.Comparer(func(a, b vip.Frontend) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func FuzzReadGlance(f *testing.F) {
	f.Add(tableText)
	f.Add("TCP  0A600007: rr\n  -> :  Masq 1 1 1\nFWM\n-> -> -> -> -> ->")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := readGlance(strings.NewReader(text))
		for key, shown := range g {
			if err == nil && key.mark == 0 && !key.frontend.Addr.IsValid() && len(shown.destinations) > 0 && key.frontend != (vip.Frontend{}) {
				t.Errorf("a server without an address: %v", key)
			}
		}
	})
}

func TestGlanceShows(t *testing.T) {
	t.Parallel()
	key := byMark(true, 0x12800)
	held := func(weight int, scheduler string) *holding {
		return &holding{spec: serverSpec{scheduler: scheduler}, weights: map[netip.AddrPort]int{mustAddrPort("172.16.2.1:8080"): weight}}
	}
	g, err := readGlance(strings.NewReader(tableText))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		held *holding
		want bool
	}{
		{"just as it is", held(1, "wlc"), true},
		{"X03 another weight", held(5, "wlc"), false},
		{"another scheduler", held(1, "rr"), false},
		{"an endpoint more", &holding{spec: serverSpec{scheduler: "wlc"}, weights: map[netip.AddrPort]int{}}, false},
	}
	for _, tt := range tests {
		if got := g.shows(key, tt.held); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
	if g.shows(byMark(false, 1), held(1, "rr")) || glance(nil).shows(key, held(1, "wlc")) {
		t.Error("a server that is not in the table is shown")
	}
}

func TestReadStart(t *testing.T) {
	t.Parallel()
	small, whole, err := readStart(strings.NewReader(tableText))
	if err != nil || !whole || len(small) != 3 {
		t.Errorf("a small table: got %d servers, whole: %t, %v", len(small), whole, err)
	}
	var large strings.Builder
	large.WriteString(tableText)
	for large.Len() < 2*glanceStart {
		large.WriteString("TCP  0A600008:0050 rr \n  -> AC100101:1F90      Masq    1      3          4         \n")
	}
	g, whole, err := readStart(strings.NewReader(large.String()))
	if err != nil || whole || len(g) != 4 {
		t.Errorf("a large table: got %d servers, whole: %t, %v", len(g), whole, err)
	}
	for key, shown := range g {
		if len(shown.destinations) == 0 {
			t.Errorf("%s was cut off", key)
		}
	}
}
