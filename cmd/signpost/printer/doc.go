// Package printer prints lists of objects as kubectl does: a table, a wide
// table, YAML or JSON.
//
//	admin.List ──> Printer ──> "NAME   TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE"
//
// The columns of services, endpoints and pods are kubectl's (pods without what
// only a kubelet knows); records and virtual servers follow their manner.
package printer
