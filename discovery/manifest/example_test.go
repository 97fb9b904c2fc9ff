package manifest_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"signpost/discovery"
	"signpost/discovery/manifest"
)

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "manifests")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	text := `apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.0.11
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: bad-range}
spec:
  clusterIP: 192.0.2.7
  ports: [{port: 80}]
`
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	loaded, err := manifest.Load(manifest.Config{Dir: dir, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	web, _ := loaded.Snapshot.Services.Get(discovery.Key{Namespace: "default", Name: "web"})
	fmt.Println(web.ClusterIPs)
	for _, p := range loaded.Problems {
		fmt.Printf("%s:%d: %s: %s\n", filepath.Base(p.File), p.Line, p.Object, p.Field)
	}
	// Output:
	// [10.96.0.11]
	// web.yaml:12: Service "default/bad-range": spec.clusterIPs[0]
}
