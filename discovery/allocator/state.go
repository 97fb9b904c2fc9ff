package allocator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// state is the text of the state file, kept a line per owner so that writing
// it after a change encodes the changed lines only.
type state struct {
	path  string
	disk  disk
	keys  []string // sorted
	lines map[string][]byte
	dirty bool
}

// stateVersion is the file format's number.
const stateVersion = 1

const about = "Allocated addresses and ports of Services. " +
	"Stop the server before editing; an entry that is removed is allocated anew."

// file is the state file's content: JSON, hence YAML as well.
type file struct {
	Version  int                   `json:"version"`
	About    string                `json:"about,omitempty"`
	Services map[string]Assignment `json:"services"`
}

// CorruptError says that the state file can't be understood. The file was left as it is.
type CorruptError struct {
	Path string
	Err  error
}

// Error names the file, the fault and the way out.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("reading allocations %q: %v: the file is left as it is; restore it from a backup, "+
		"or move it away to have all addresses that the manifests don't name allocated anew", e.Path, e.Err)
}

// Unwrap returns the fault.
func (e *CorruptError) Unwrap() error { return e.Err }

func newState(path string) state {
	return state{path: path, disk: osDisk{}, lines: map[string][]byte{}}
}

func (s *state) put(owner string, now Assignment) {
	at, found := slices.BinarySearch(s.keys, owner)
	s.dirty = true
	if now.empty() {
		if found {
			s.keys = slices.Delete(s.keys, at, at+1)
			delete(s.lines, owner)
		}
		return
	}
	if !found {
		s.keys = slices.Insert(s.keys, at, owner)
	}
	s.lines[owner] = encode(owner, now)
}

// encode returns an owner's line. Marshalling strings, numbers and addresses can't fail.
func encode(owner string, now Assignment) []byte {
	key, _ := json.Marshal(owner)
	value, _ := json.Marshal(now)
	return slices.Concat([]byte("    "), key, []byte(": "), value)
}

func (s *state) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  \"version\": %d,\n  \"about\": %q,\n  \"services\": {", stateVersion, about)
	for i, key := range s.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(s.lines[key])
	}
	b.WriteString("\n  }\n}\n")
	return b.Bytes()
}

// Save makes everything that was allocated durable. Without a state file, or
// without a change since the last time, it does nothing. After an error the
// file is what it was, and the next Save tries again.
func (a *Allocator) Save() error {
	if a.state.path == "" || !a.state.dirty {
		return nil
	}
	if err := replaceFile(a.state.disk, a.state.path, a.state.text()); err != nil {
		return fmt.Errorf("saving allocations %q: %w", a.state.path, err)
	}
	a.state.dirty = false
	return nil
}

// Load reads the state file and remembers what is in it. A file that isn't
// there is an empty one; one that can't be understood is a [*CorruptError],
// and nothing is remembered. Call it once, before the first request.
func (a *Allocator) Load() error {
	if a.state.path == "" {
		return nil
	}
	data, err := os.ReadFile(a.state.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading allocations %q: %w", a.state.path, err)
	}
	content, err := parseState(data)
	if err != nil {
		return &CorruptError{Path: a.state.path, Err: err}
	}
	for _, owner := range slices.Sorted(maps.Keys(content.Services)) {
		a.remember(owner, content.Services[owner])
	}
	a.state.dirty = false
	return nil
}

// remember takes over an entry of the state file. What lies in no range any
// more, because the ranges were changed, stays written but is not owned.
func (a *Allocator) remember(owner string, had Assignment) {
	for _, r := range had.resources() {
		a.take(r, owner)
	}
	a.record(owner, had)
}

func parseState(data []byte) (file, error) {
	var content file
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&content); err != nil {
		return file{}, fmt.Errorf("parsing: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return file{}, errors.New("parsing: something follows the end")
	}
	if content.Version != stateVersion {
		return file{}, fmt.Errorf("version %d: must be %d", content.Version, stateVersion)
	}
	if content.Services == nil {
		return file{}, errors.New("services: missing")
	}
	return content, checkOwners(content.Services)
}

// checkOwners refuses a file in which one thing has two owners.
func checkOwners(services map[string]Assignment) error {
	owners := map[resource]string{}
	for owner, had := range services {
		if !strings.Contains(owner, "/") {
			return fmt.Errorf("service %q: must be namespace/name", owner)
		}
		for _, r := range had.resources() {
			if other, taken := owners[r]; taken {
				return fmt.Errorf("%s: belongs to %q and to %q", r, min(owner, other), max(owner, other))
			}
			owners[r] = owner
		}
	}
	return nil
}

// String returns the address or the port.
func (r resource) String() string {
	if r.addr.IsValid() {
		return "address " + r.addr.String()
	}
	return fmt.Sprintf("node port %d", r.port)
}

// TemporaryName is the file next to a state file that is written before it is
// renamed to it. It may be left over after a crash, and means nothing.
func TemporaryName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
}
