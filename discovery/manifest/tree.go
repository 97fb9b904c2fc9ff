package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// listing is what a look at the folder found.
type listing struct {
	files   map[string]fs.FileInfo // by path below the folder, folder included
	dirs    map[string]bool        // the folder and those below it
	targets map[string]bool        // the real folders of files that are symlinks
	failed  map[string]error       // what could not be read: everything below it stays as it was
}

// list looks at the whole folder. Hidden files and folders are left out, as
// in a mounted ConfigMap, whose real files lie in a hidden one. Symlinks are
// followed; one that leads back up is no error.
func list(root string, skip func(path string) bool) *listing {
	l := &listing{
		files: map[string]fs.FileInfo{}, failed: map[string]error{},
		dirs: map[string]bool{}, targets: map[string]bool{},
	}
	l.walk(root, nil, skip)
	return l
}

// walk lists one folder. Above are the real paths of those around it.
func (l *listing) walk(dir string, above []string, skip func(string) bool) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		l.fail(dir, err)
		return
	}
	if slices.Contains(above, real) {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		l.fail(dir, err)
		return
	}
	l.dirs[dir] = true
	above = append(slices.Clone(above), real)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if !hidden(entry.Name()) && !skip(path) {
			l.entry(path, entry, above, skip)
		}
	}
}

func (l *listing) entry(path string, entry fs.DirEntry, above []string, skip func(string) bool) {
	isLink := entry.Type()&fs.ModeSymlink != 0
	if !isLink && !entry.IsDir() && !isManifest(path) {
		return
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !isLink: // gone since it was listed
	case err != nil && isManifest(path):
		l.fail(path, err)
	case err != nil:
	case info.IsDir():
		l.walk(path, above, skip)
	case isManifest(path) && info.Mode().IsRegular():
		l.files[path] = info
		if isLink {
			l.noteTarget(path)
		}
	}
}

// noteTarget notes the folder in which a symlink's target lies: writing to
// the target is no event in the folder of the link.
func (l *listing) noteTarget(path string) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		l.targets[filepath.Dir(target)] = true
	}
}

func (l *listing) fail(path string, err error) {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	l.failed[path] = fmt.Errorf("reading: %w: what was there stays as it was", err)
}

// unknown reports whether a path lies in something that could not be read.
func (l *listing) unknown(path string) bool {
	for failed := range l.failed {
		if path == failed || strings.HasPrefix(path, failed+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") && name != "." && name != ".." }

func isManifest(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}
