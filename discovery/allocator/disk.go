package allocator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// disk is what replacing a file needs of the system, one method for each step
// after which the power may fail.
type disk interface {
	Create(path string) (syncer, error)
	Rename(from, to string) error
	SyncDir(path string) error
}

type syncer interface {
	io.WriteCloser
	Sync() error
}

type osDisk struct{}

func (osDisk) Create(path string) (syncer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	return f, step("creating the new file", err)
}

func (osDisk) Rename(from, to string) error {
	return step("putting the new file in place", os.Rename(from, to))
}

func (osDisk) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return step("opening the folder", err)
	}
	return step("syncing the folder", errors.Join(d.Sync(), d.Close()))
}

// step says at which step an error happened.
func step(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// replaceFile makes path hold the data, or leaves it as it was: at no moment
// is there less than one complete file. A symlink is followed, not replaced.
func replaceFile(d disk, path string, data []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	temporary := TemporaryName(path)
	if err := writeSynced(d, temporary, data); err != nil {
		return err
	}
	if err := d.Rename(temporary, path); err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(path))
}

func writeSynced(d disk, path string, data []byte) error {
	f, err := d.Create(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return step("closing the new file", f.Close())
}
