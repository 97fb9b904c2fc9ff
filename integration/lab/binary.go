package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Binary returns the path of the program under test: the one that SIGNPOST in
// the environment names, else one that it builds in a folder.
func Binary(ctx context.Context, dir string) (string, error) {
	if path := os.Getenv("SIGNPOST"); path != "" {
		return path, nil
	}
	path := filepath.Join(dir, "signpost")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "signpost/cmd/signpost")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building signpost: %w: %s", err, out)
	}
	return path, nil
}
