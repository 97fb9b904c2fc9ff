// Package sysctl sets the kernel settings that a dataplane mode needs: each
// only if it differs, with one log line that says from what to what and why. A
// setting that can't be written (a container's /proc/sys is read-only) is a
// warning, never the end: the dataplane may work all the same.
package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Setting is one kernel setting that is wanted.
type Setting struct {
	Name  string // "net/ipv4/ip_forward"
	Value int
	// AtLeast leaves a larger value as it is.
	AtLeast bool
	// Optional settings don't exist on every kernel; that is no warning.
	Optional bool
	Why      string // what goes wrong without it, for the log
}

// Root is where the kernel shows its settings.
const Root = "/proc/sys"

// Forwarding are the settings that every mode needs which has the kernel carry
// packets between pods and nodes.
func Forwarding() []Setting {
	return []Setting{
		{Name: "net/ipv4/ip_forward", Value: 1, Why: "packets to services are forwarded to endpoints on other hosts"},
		{Name: "net/ipv6/conf/all/forwarding", Value: 1, Optional: true, Why: "packets to IPv6 services are forwarded to endpoints on other hosts"},
	}
}

// Ensure makes the settings so, as far as it may, and logs what it changed and
// what it could not. The error joins the latter; nil: all is as wanted.
func Ensure(root string, settings []Setting, log *slog.Logger) error {
	var errs []error
	for _, s := range settings {
		before, changed, err := s.ensure(root)
		switch {
		case err != nil:
			log.Warn("a kernel setting could not be made", "setting", s.Name, "wanted", s.Value, "why", s.Why, "error", err)
			errs = append(errs, err)
		case changed:
			log.Info("changed a kernel setting", "setting", s.Name, "from", before, "to", s.Value, "why", s.Why)
		}
	}
	return errors.Join(errs...)
}

func (s Setting) ensure(root string) (before int, changed bool, err error) {
	path := filepath.Join(root, s.Name)
	before, err = read(path)
	switch {
	case s.Optional && errors.Is(err, fs.ErrNotExist):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("reading setting %q: %w", s.Name, err)
	case before == s.Value || s.AtLeast && before > s.Value:
		return before, false, nil
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(s.Value)), 0); err != nil {
		return before, false, fmt.Errorf("setting %q to %d: %w", s.Name, s.Value, err)
	}
	return before, true, nil
}

func read(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err //nolint:wrapcheck // the caller names the setting
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("its value is not a number: %w", err)
	}
	return n, nil
}
