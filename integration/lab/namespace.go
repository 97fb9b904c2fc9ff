package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespaceDir is where named network namespaces are, for "ip netns" too.
const namespaceDir = "/run/netns"

// within runs f with the calling thread in a network namespace. Goroutines that
// f starts are elsewhere; sockets that f opens stay inside.
func within(ns netns.NsHandle, f func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("finding the current network namespace: %w", err)
	}
	defer home.Close()
	if err := netns.Set(ns); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering a network namespace: %w", err)
	}
	defer func() {
		if netns.Set(home) == nil { // else the thread ends with its goroutine
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// createNamespace makes a named namespace and returns a handle to it.
func createNamespace(name string) (netns.NsHandle, error) {
	home, err := netns.Get()
	if err != nil {
		return netns.None(), fmt.Errorf("finding the current network namespace: %w", err)
	}
	defer home.Close()
	made := netns.None()
	err = within(home, func() error { // NewNamed moves the thread
		var err error
		made, err = netns.NewNamed(name)
		return err
	})
	if errors.Is(err, unix.EPERM) {
		return made, fmt.Errorf("creating network namespace %q: needs root (CAP_SYS_ADMIN): %w", name, err)
	}
	if err != nil {
		return made, fmt.Errorf("creating network namespace %q: %w", name, err)
	}
	return made, nil
}

// namespaces lists the named namespaces that begin with a prefix.
func namespaces(prefix string) ([]string, error) {
	entries, err := os.ReadDir(namespaceDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listing network namespaces: %w", err)
	}
	var list []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			list = append(list, e.Name())
		}
	}
	return list, nil
}

// removeNamespace ends the processes in a namespace, waits for them, and
// removes it.
func removeNamespace(name string) error {
	if err := killInside(name); err != nil {
		return err
	}
	if err := netns.DeleteNamed(name); err != nil && exists(name) { // nobody else has removed it
		return fmt.Errorf("removing network namespace %q: %w", name, err)
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Lstat(filepath.Join(namespaceDir, name))
	return err == nil
}

func killInside(name string) error {
	var stat unix.Stat_t
	if err := unix.Stat(filepath.Join(namespaceDir, name), &stat); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return fmt.Errorf("looking at network namespace %q: %w", name, err)
	}
	if home := namespaceOf("self"); home == stat.Ino {
		return nil // never our own: the name is a leftover of something odd
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err == nil && namespaceOf(p.Name()) == stat.Ino {
			endProcess(pid)
		}
	}
	return nil
}

// namespaceOf returns the inode of a process's network namespace; 0: unknown.
func namespaceOf(pid string) uint64 {
	var stat unix.Stat_t
	if unix.Stat(filepath.Join("/proc", pid, "ns/net"), &stat) != nil {
		return 0
	}
	return stat.Ino
}

// endProcess kills a process and waits until it is gone, as long as that may
// reasonably take.
func endProcess(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone already
	}
	defer unix.Close(fd)
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
		const milliseconds = 2000
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, milliseconds)
	}
}
