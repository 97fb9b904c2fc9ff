//go:build !linux

package kube

import "syscall"

// limitUnacknowledged does nothing: the option is Linux'.
func limitUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
