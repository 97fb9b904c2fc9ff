package convert

import "testing"

func TestParseAddr(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "010.000.00.001": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "::FFFF:010.0.0.1": "10.0.0.1",
		"FD00:0:0::01": "fd00::1", "": "", " 10.0.0.1": "", "10.0.0": "", "10..0.1": "", "10.0.0.256": "", "fe80::1%lo": "", "0x0a.0.0.1": "", "10.0.0.1/8": "",
	} {
		a, ok := parseAddr(text)
		if got := map[bool]string{true: a.String()}[ok]; got != want {
			t.Errorf("P-09 %q: got %q, want %q", text, got, want)
		}
	}
}

func TestParsePrefix(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", " 10.1.2.3/08 ": "10.0.0.0/8", "::ffff:10.0.0.0/104": "10.0.0.0/8", "fd00::1/64": "fd00::/64",
		"10.0.0.0": "", "10.0.0.0/33": "", "10.0.0.0/-1": "", "10.0.0.0/": "", "/8": "", "::ffff:10.0.0.0/95": "", "10.0.0.0/0000008": "", "fd00::/129": "",
	} {
		p, ok := parsePrefix(text)
		if got := map[bool]string{true: p.String()}[ok]; got != want {
			t.Errorf("P-18 %q: got %q, want %q", text, got, want)
		}
	}
}
