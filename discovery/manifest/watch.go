package manifest

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// watcher follows the folders of the tree, where the system can do that.
type watcher struct {
	fs      *fsnotify.Watcher // nil: it can't
	watched map[string]bool
	tree    map[string]bool // of these, those that belong to the tree: the others hold symlinks' targets
}

func newWatcher() (*watcher, error) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return &watcher{}, fmt.Errorf("asking for file notification: %w", err)
	}
	return &watcher{fs: fs, watched: map[string]bool{}}, nil
}

// events never delivers anything where watching doesn't work.
func (w *watcher) events() <-chan fsnotify.Event {
	if w.fs == nil {
		return nil
	}
	return w.fs.Events
}

func (w *watcher) errors() <-chan error {
	if w.fs == nil {
		return nil
	}
	return w.fs.Errors
}

// close stops watching; events that were not read are lost.
func (w *watcher) close() {
	if w.fs != nil {
		_ = w.fs.Close() // fails only if it was closed before
		w.fs = nil
	}
}

// follow watches exactly the folders of a listing. It reports whether there
// were new ones: what happened in them before has to be looked at.
func (w *watcher) follow(l *listing) (fresh bool, err error) {
	if w.fs == nil {
		return false, nil
	}
	w.tree = l.dirs
	wanted := map[string]bool{}
	for _, dirs := range []map[string]bool{l.dirs, l.targets} {
		for dir := range dirs {
			wanted[dir] = true
			if w.watched[dir] {
				continue
			}
			if err := w.fs.Add(dir); err != nil {
				return fresh, fmt.Errorf("asking for file notification of %q: %w", dir, err)
			}
			w.watched[dir], fresh = true, true
		}
	}
	for dir := range w.watched {
		if !wanted[dir] {
			_ = w.fs.Remove(dir) // it may be gone, and its watch with it
			delete(w.watched, dir)
		}
	}
	return fresh, nil
}

// meaning says what to do about an event: read one file, look at the whole
// folder, or nothing.
func (w *watcher) meaning(ev fsnotify.Event) (path string, everything bool) {
	path = filepath.Clean(ev.Name)
	name := filepath.Base(path)
	if w.watched[path] {
		if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) {
			delete(w.watched, path) // the watch went with the folder
		}
		return "", true
	}
	switch {
	case !w.tree[filepath.Dir(path)], strings.HasPrefix(name, ".."):
		return "", true // a symlink's target changed, or a ConfigMap's data was swapped
	case hidden(name):
		return "", false
	case isManifest(name):
		return path, false
	default:
		return "", true // a folder, perhaps
	}
}
