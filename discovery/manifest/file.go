package manifest

import (
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"slices"
	"time"
)

// document is a piece of a file: where it stands now and what is in it.
type document struct {
	file    *file
	index   int // place in the file
	line    int // of the file, counted from 1, at which the text begins
	hash    uint64
	size    int
	content *content // nil until decoded
	// held documents are in the file no more, but the file has parts that
	// can't be understood, and this may be what they were.
	held bool
}

// file is what is known about one file.
type file struct {
	path  string
	info  fs.FileInfo // at the last reading that was accepted
	read  time.Time   // when that began
	docs  []*document // in order; held ones last
	doubt doubt
}

// doubt is a reading that was not accepted yet, because it looks like a
// moment between two steps of a writer.
type doubt struct {
	info  fs.FileInfo // nil: the file is gone
	since time.Time   // zero: no doubt
}

// change is what a new reading of a file changes.
type change struct {
	file    *file
	info    fs.FileInfo // nil: the file is gone
	read    time.Time
	docs    []*document // the new list
	added   []*document // of docs, those that are new, to be decoded
	removed []*document
	chunks  []chunk // the text of added
	lines   []int   // where each of docs begins
}

// readFile compares a file with what is known of it.
func readFile(f *file, seed maphash.Seed, now time.Time) (*change, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, fmt.Errorf("looking at %q: %w", f.path, err)
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", f.path, err)
	}
	c := &change{file: f, info: info, read: now}
	c.align(split(f.path, data, seed))
	return c, nil
}

// gone is the change of a file that isn't there any more.
func gone(f *file, now time.Time) *change {
	return &change{file: f, read: now, removed: f.docs}
}

// align finds the old documents among the new chunks: a common beginning and
// a common end, which is all there is after most edits, and then by content.
func (c *change) align(chunks []chunk) {
	old := c.file.docs
	same := func(d *document, ch chunk) bool { return d.hash == ch.hash && d.size == len(ch.text) && !d.held }
	head := 0
	for head < min(len(old), len(chunks)) && same(old[head], chunks[head]) {
		head++
	}
	tail := 0
	for tail < min(len(old), len(chunks))-head && same(old[len(old)-1-tail], chunks[len(chunks)-1-tail]) {
		tail++
	}
	middle := map[uint64][]*document{}
	for _, d := range old[head : len(old)-tail] {
		middle[d.hash] = append(middle[d.hash], d)
	}
	c.docs = make([]*document, 0, len(chunks))
	c.docs = append(c.docs, old[:head]...)
	for _, ch := range chunks[head : len(chunks)-tail] {
		if found := middle[ch.hash]; len(found) > 0 && found[0].size == len(ch.text) {
			c.docs, middle[ch.hash] = append(c.docs, found[0]), found[1:]
			continue
		}
		d := &document{file: c.file, line: ch.line, hash: ch.hash, size: len(ch.text)}
		c.docs, c.added, c.chunks = append(c.docs, d), append(c.added, d), append(c.chunks, ch)
	}
	c.docs = append(c.docs, old[len(old)-tail:]...)
	for _, d := range old[head : len(old)-tail] {
		if slices.Contains(middle[d.hash], d) {
			c.removed = append(c.removed, d)
		}
	}
	c.lines = make([]int, len(chunks))
	for i := range chunks {
		c.lines[i] = chunks[i].line
	}
}

// nothing reports whether the reading found what was known.
func (c *change) nothing() bool {
	return len(c.added)+len(c.removed) == 0 && len(c.docs) == len(c.file.docs)
}

// opaque reports whether parts of the file can't be understood.
func (c *change) opaque() bool {
	return slices.ContainsFunc(c.docs, func(d *document) bool { return d.content.opaque() })
}

// lost lists, by document, the objects that the file has no more.
func (c *change) lost() []*document {
	present := map[objectID]bool{}
	for _, d := range c.added {
		for _, o := range d.content.objects {
			present[o.id] = true
		}
	}
	var docs []*document
	for _, d := range c.removed {
		missing := slices.DeleteFunc(slices.Clone(d.content.objects), func(o *object) bool { return present[o.id] })
		if len(missing) > 0 {
			docs = append(docs, &document{file: d.file, line: d.line, content: &content{objects: missing}, held: true})
		}
	}
	return docs
}

// doubtful reports whether the reading may show a moment between two steps of
// a writer: the file is gone, or it was written in place and something of it
// is missing or can't be understood. It stops being so once the file has
// stayed like this for a while.
func (c *change) doubtful(now time.Time) bool {
	f := c.file
	if f.info == nil || c.nothing() && c.info != nil {
		return false
	}
	if c.info != nil && (!os.SameFile(f.info, c.info) || !c.opaque() && len(c.lost()) == 0) {
		return false
	}
	if f.doubt.since.IsZero() || !sameInfo(f.doubt.info, c.info) {
		f.doubt = doubt{info: c.info, since: now}
	}
	return now.Sub(f.doubt.since) < settle
}

// commit makes the reading what is known of the file. It returns the
// documents that came and went for good.
func (c *change) commit() (added, removed []*document) {
	f := c.file
	added, removed = c.added, c.removed
	var held []*document
	if c.info != nil && c.opaque() {
		held = c.lost()
		added = append(slices.Clip(added), held...)
	}
	for i, d := range c.docs {
		d.index, d.line, d.held = i, c.lines[i], false
	}
	for i, d := range held {
		d.index = len(c.docs) + i
	}
	f.docs = append(c.docs, held...)
	f.info, f.read, f.doubt = c.info, c.read, doubt{}
	return added, removed
}

// sameInfo reports whether two looks at a file show the same content, as far
// as a look can tell.
func sameInfo(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}

// current reports whether a look at the folder shows that the file need not
// be read again. A file that changed shortly before it was read may have
// changed again within the clock's tick.
func (f *file) current(info fs.FileInfo) bool {
	const tick = time.Second
	return f.info != nil && f.doubt.since.IsZero() && sameInfo(f.info, info) && f.read.Sub(info.ModTime()) > tick
}
