package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// socketMode lets only the server's own user in.
const socketMode = 0o600

// DefaultAddress is where the server listens and the commands ask when the
// Corefile doesn't say: /run for root, else the user's own runtime directory.
// It is empty when there is no such directory.
func DefaultAddress() string {
	if os.Geteuid() == 0 {
		return "unix:///run/signpost.sock"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return "unix://" + filepath.Join(dir, "signpost.sock")
	}
	return ""
}

// SocketPath returns the path of an address "unix://PATH".
func SocketPath(address string) (string, error) {
	path, found := strings.CutPrefix(address, "unix://")
	if !found || path == "" {
		return "", fmt.Errorf("parsing admin address %q: must be unix://PATH", address)
	}
	return path, nil
}

// Listen opens the socket. A file that a dead server left is replaced, a live
// server's is not.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	path, err := SocketPath(address)
	if err != nil {
		return nil, err
	}
	if err := removeDead(ctx, path); err != nil {
		return nil, fmt.Errorf("opening admin socket %q: %w", path, err)
	}
	// The mode is right from the first moment on: no other user can connect
	// between the two system calls.
	mask := syscall.Umask(0o777 &^ socketMode)
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", path)
	syscall.Umask(mask)
	if err != nil {
		return nil, fmt.Errorf("opening admin socket: %w", err)
	}
	return listener, nil
}

var errInUse = errors.New("another server answers there")

func removeDead(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking at the file: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the file exists and is not a socket")
	}
	var dialer net.Dialer
	if conn, err := dialer.DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close() // only asked whether anybody is there
		return errInUse
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the socket of a dead server: %w", err)
	}
	return nil
}
