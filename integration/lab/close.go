package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Close ends every process in the lab and removes it.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	err := closeAll(l.closers)
	l.release()
	return errors.Join(err, Remove(l.name, l.Dir))
}

// closeAll closes in the reverse order.
func closeAll(list []io.Closer) error {
	var failed []error
	for _, c := range slices.Backward(list) {
		failed = append(failed, c.Close())
	}
	return errors.Join(failed...)
}

// Leave lets go of a lab that has a name and leaves it running: [Open] finds it
// again, and [Remove] removes it.
func (l *Lab) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release()
}

func (l *Lab) release() {
	l.released = true
	l.closers = nil
	closed := map[netns.NsHandle]bool{}
	for _, h := range l.hosts { // pods on their node's network share a handle
		if !closed[h.ns] {
			closed[h.ns] = true
			_ = h.ns.Close()
		}
	}
}

// keep closes c with the lab.
func (l *Lab) keep(c io.Closer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closers = append(l.closers, c)
}

// Open finds a running lab by its name. Its Topology is not known. It has to be
// left, or closed, which removes it.
func Open(name, dir string) (*Lab, error) {
	if dir == "" {
		dir = dirOf(name)
	}
	text, err := os.ReadFile(filepath.Join(dir, hostsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("finding lab %q: it is not running", name)
	}
	if err != nil {
		return nil, fmt.Errorf("finding lab %q: %w", name, err)
	}
	l := &Lab{name: name, Dir: dir, hosts: make(map[string]host)}
	if err := json.Unmarshal(text, &l.hosts); err != nil {
		return nil, fmt.Errorf("finding lab %q: %s: %w", name, hostsFile, err)
	}
	for n, h := range l.hosts {
		h.ns = netns.None()
		if h.ns, err = netns.GetFromName(h.Namespace); err != nil {
			return nil, fmt.Errorf("finding host %q of lab %q: %w", n, name, err)
		}
		l.hosts[n] = h
	}
	return l, nil
}

// Remove removes a lab by its name, whichever process made it, and the
// processes in it. One that is not there is no error. Dir empty: the default.
func Remove(name, dir string) error {
	if dir == "" {
		dir = dirOf(name)
	}
	list, err := namespaces(name + "-")
	if err != nil {
		return err
	}
	var failed []error
	for _, n := range list {
		failed = append(failed, removeNamespace(n))
	}
	if err := os.RemoveAll(dir); err != nil {
		failed = append(failed, fmt.Errorf("removing the lab's folder: %w", err))
	}
	return errors.Join(failed...)
}

var ofProcess = regexp.MustCompile(`^(signpost-(\d+)\.\d+)-`)

// removeLeftovers removes the labs and folders of processes that are gone.
func removeLeftovers() error {
	list, err := namespaces("signpost-")
	if err != nil {
		return err
	}
	folders, err := filepath.Glob(filepath.Join(os.TempDir(), "signpost-*"))
	if err != nil {
		return fmt.Errorf("listing folders of labs: %w", err)
	}
	var failed []error
	for _, n := range list {
		if isLeftover(n) {
			failed = append(failed, removeNamespace(n))
		}
	}
	for _, dir := range folders {
		if isLeftover(filepath.Base(dir)) {
			failed = append(failed, os.RemoveAll(dir))
		}
	}
	return errors.Join(failed...)
}

func isLeftover(name string) bool {
	m := ofProcess.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	pid, err := strconv.Atoi(m[2])
	return err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// Exists reports whether a lab of that name is running.
func Exists(name string) bool {
	list, err := namespaces(name + "-")
	return err == nil && len(list) > 0
}

// trim keeps the end of an output that may be long.
func trim(output string) string {
	const most = 4000
	output = strings.TrimSpace(output)
	if len(output) > most {
		return "…" + output[len(output)-most:]
	}
	return output
}
