package printer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signpost/cmd/signpost/admin"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func items(texts ...string) *admin.List {
	list := &admin.List{}
	for _, text := range texts {
		list.Items = append(list.Items, json.RawMessage(text))
	}
	return list
}

const (
	web = `{"kind":"Service","metadata":{"name":"web","namespace":"default","creationTimestamp":"2026-03-01T11:55:00Z"},
		"spec":{"type":"ClusterIP","clusterIPs":["10.96.0.80"],"selector":{"tier":"front","app":"web"},
		"ports":[{"port":80,"protocol":"TCP"},{"port":53,"protocol":"UDP"}]}}`
	headless = `{"metadata":{"name":"db","namespace":"default"},"spec":{"type":"ClusterIP","clusterIPs":["None"]}}`
	nodePort = `{"metadata":{"name":"shop","namespace":"shop","creationTimestamp":"2026-02-01T12:00:00Z"},
		"spec":{"type":"NodePort","clusterIPs":["10.96.0.81"],"externalIPs":["192.0.2.7"],"ports":[{"port":80,"nodePort":30080,"protocol":"TCP"}]}}`
	pending  = `{"metadata":{"name":"lb","namespace":"shop"},"spec":{"type":"LoadBalancer","clusterIPs":["10.96.0.82"],"ports":[{"port":80,"protocol":"TCP"}]}}`
	balanced = `{"metadata":{"name":"lb2","namespace":"shop"},"spec":{"type":"LoadBalancer","clusterIPs":["10.96.0.83"]},
		"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.200"},{"hostname":"lb.example.org"}]}}}`
	alias = `{"metadata":{"name":"docs","namespace":"shop"},"spec":{"type":"ExternalName","externalName":"www.example.com"}}`
)

func TestTables(t *testing.T) {
	tests := []struct {
		name    string
		printer Printer
		list    *admin.List
		want    string
	}{
		{"services", Printer{Resource: admin.Services}, items(web, headless), `
NAME   TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)         AGE
web    ClusterIP   10.96.0.80   <none>        80/TCP,53/UDP   5m
db     ClusterIP   None         <none>        <none>          <unknown>
`},
		{"services of all namespaces", Printer{Resource: admin.Services, AllNamespaces: true}, items(nodePort, pending, balanced, alias), `
NAMESPACE   NAME   TYPE           CLUSTER-IP   EXTERNAL-IP        PORT(S)        AGE
shop        shop   NodePort       10.96.0.81   192.0.2.7          80:30080/TCP   28d
shop        lb     LoadBalancer   10.96.0.82   <pending>          80/TCP         <unknown>
shop        lb2    LoadBalancer   10.96.0.83   203.0.113.200...   <none>         <unknown>
shop        docs   ExternalName   <none>       www.example.com    <none>         <unknown>
`},
		{"services, wide", Printer{Resource: admin.Services, Format: Wide}, items(web, balanced), `
NAME   TYPE           CLUSTER-IP   EXTERNAL-IP                    PORT(S)         AGE         SELECTOR
web    ClusterIP      10.96.0.80   <none>                         80/TCP,53/UDP   5m          app=web,tier=front
lb2    LoadBalancer   10.96.0.83   203.0.113.200,lb.example.org   <none>          <unknown>   <none>
`},
		{"endpoints", Printer{Resource: admin.Endpoints}, items(
			`{"metadata":{"name":"none"}}`,
			`{"metadata":{"name":"two"},"subsets":[{"addresses":[{"ip":"10.0.0.1"},{"ip":"fd00::1"}],"notReadyAddresses":[{"ip":"10.0.0.9"}],"ports":[{"port":80}]}]}`,
			`{"metadata":{"name":"many"},"subsets":[{"addresses":[{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}],"ports":[{"port":80},{"port":81}]}]}`,
			`{"metadata":{"name":"portless"},"subsets":[{"addresses":[{"ip":"10.0.0.1"}]}]}`), `
NAME       ENDPOINTS                                         AGE
none       <none>                                            <unknown>
two        10.0.0.1:80,[fd00::1]:80                          <unknown>
many       10.0.0.1:80,10.0.0.1:81,10.0.0.2:80 + 1 more...   <unknown>
portless   10.0.0.1                                          <unknown>
`},
		{"pods, wide", Printer{Resource: admin.Pods, Format: Wide}, items(
			`{"metadata":{"name":"web-1"},"spec":{"nodeName":"n1"},"status":{"phase":"Running","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}]}}`,
			`{"metadata":{"name":"job","deletionTimestamp":"2026-03-01T11:00:00Z"},"status":{"phase":"Running"}}`,
			`{"metadata":{"name":"done"},"status":{"phase":"Succeeded","conditions":[{"type":"Ready","status":"False"}]}}`), `
NAME    READY     STATUS        AGE         IP         NODE
web-1   True      Running       <unknown>   10.0.0.1   n1
job     Unknown   Terminating   <unknown>   <none>     <none>
done    False     Completed     <unknown>   <none>     <none>
`},
		{"records", Printer{Resource: admin.Records}, items(
			`{"metadata":{"name":"web"},"owner":"web.default.svc.cluster.local.","ttl":5,"type":"A","data":"10.96.0.80"}`), `
NAME                             TTL   TYPE   DATA
web.default.svc.cluster.local.   5     A      10.96.0.80
`},
		{"virtual servers, wide", Printer{Resource: admin.VirtualServers, Format: Wide}, items(
			`{"metadata":{"name":"web"},"frontend":"10.96.0.80:80/TCP","portName":"http","virtualKind":"ClusterIP","applied":true,"affinity":"3h0m0s",
			  "clusterEndpoints":["10.0.0.1:8080"],"routes":{"pod":{"set":"cluster","empty":"reject"},"node":{"set":"cluster","snat":true,"empty":"reject"},"outside":{"set":"local","empty":"drop"}}}`,
			`{"metadata":{"name":"closed"},"frontend":"203.0.113.1:80/TCP","virtualKind":"LoadBalancer","restricted":true,"losers":["default/other"]}`), `
FRONTEND             SERVICE    KIND           ENDPOINTS       APPLIED   AGE         POD              NODE                  OUTSIDE      AFFINITY   SOURCE-RANGES   LOSERS
10.96.0.80:80/TCP    web:http   ClusterIP      10.0.0.1:8080   true      <unknown>   cluster/reject   cluster+snat/reject   local/drop   3h0m0s     <none>          <none>
203.0.113.1:80/TCP   closed     LoadBalancer   <none>          <none>    <unknown>   /                /                     /            <none>     closed          default/other
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.printer.Now = func() time.Time { return now }
			var out strings.Builder
			if err := tt.printer.List(&out, tt.list, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	print := func(f Format, single bool) string {
		p := &Printer{Resource: admin.Services, Format: f, Now: time.Now}
		list := items(`{"kind":"Service","metadata":{"name":"web"}}`)
		list.Kind, list.APIVersion = "List", "v1"
		var out strings.Builder
		if err := p.List(&out, list, single); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for _, tt := range []struct {
		name   string
		format Format
		single bool
		want   string
	}{
		{"yaml of one", YAML, true, "kind: Service\nmetadata:\n  name: web\n"},
		{"yaml of a list", YAML, false, "apiVersion: v1\nitems:\n- kind: Service\n  metadata:\n    name: web\nkind: List\nmetadata: {}\n"},
		{"json of one", JSON, true, "{\n    \"kind\": \"Service\",\n    \"metadata\": {\n        \"name\": \"web\"\n    }\n}\n"},
	} {
		if got := print(tt.format, tt.single); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	p := &Printer{Resource: admin.Services, Now: func() time.Time { return now }}
	var out strings.Builder
	if err := p.List(&out, items(web), false); err != nil {
		t.Fatal(err)
	}
	if err := p.Event(&out, admin.Event{Type: "ADDED", Object: json.RawMessage(headless)}); err != nil {
		t.Fatal(err)
	}
	want := "NAME   TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)         AGE\n" +
		"web    ClusterIP   10.96.0.80   <none>        80/TCP,53/UDP   5m\n" +
		"db     ClusterIP   None         <none>        <none>          <unknown>\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseFormat(t *testing.T) {
	t.Parallel()
	if _, err := ParseFormat("name"); err == nil || err.Error() != `output format "name": must be one of wide, yaml, json` {
		t.Errorf("error %v", err)
	}
}
