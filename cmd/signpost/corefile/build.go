package corefile

import (
	"cmp"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// DefaultPort is the port of a block whose key names none.
const DefaultPort = 53

// Options are what the command line adds.
type Options struct {
	// Port is the port of blocks whose key names none; 0: [DefaultPort].
	Port uint16
}

// Load reads a file; see [Parse]. A file that can't be read is an error of
// its first line.
func Load(file string, o Options) (*Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return &Config{}, Errors{{File: file, Line: 1, Problem: fmt.Sprintf("reading the Corefile: %v", err)}}
	}
	return Parse(file, text, o)
}

// Parse gives a Corefile its meaning; file is its name, for messages and for
// imports. The error is nil or [Errors], and then holds every problem; what
// has no problem is in the Config all the same.
func Parse(file string, text []byte, o Options) (*Config, error) {
	b := &builder{config: &Config{}, port: cmp.Or(o.Port, DefaultPort), seen: map[string]*line{}}
	blocks, syntax := read(file, text)
	for _, one := range blocks {
		b.block(one)
	}
	switch {
	case syntax != nil:
		b.errs = append(b.errs, syntax)
	case len(blocks) == 0:
		b.errs = append(b.errs, &Error{File: file, Line: 1, Problem: "has no server block: must have at least one, such as .:53 { … }"})
	}
	b.checkListeners()
	b.config.Digest = digest(blocks, o)
	return b.config, b.errs.sorted()
}

// digest is over what is written, without where it is written.
func digest(blocks []block, o Options) string {
	h := sha512.New()
	fmt.Fprintln(h, o.Port)
	for _, one := range blocks {
		fmt.Fprintf(h, "block %q\n", one.keys)
		for _, l := range one.lines {
			l.write(h)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (l *line) write(w io.Writer) {
	fmt.Fprintf(w, "%q %q {\n", l.name, l.args)
	for _, inner := range l.body {
		inner.write(w)
	}
	fmt.Fprintln(w, "}")
}

// builder fills the Config, block by block.
type builder struct {
	config *Config
	server *Server // of the present block
	port   uint16
	errs   Errors
	seen   map[string]*line // directives that stand once in the file
}

func (b *builder) block(one block) {
	b.server = &Server{Place: Place{File: one.file, Line: one.num}}
	b.config.Servers = append(b.config.Servers, b.server)
	for _, key := range one.keys {
		addresses, err := parseKey(key, b.port)
		if err != nil {
			b.errs = append(b.errs, &Error{File: one.file, Line: one.num, Subject: key, Problem: err.Error()})
		}
		b.server.Addresses = append(b.server.Addresses, addresses...)
	}
	inBlock := map[string]*line{}
	for _, l := range one.lines {
		b.line(l, inBlock)
	}
	b.checkTLS()
}

func (b *builder) line(l *line, inBlock map[string]*line) {
	s := &scan{line: l, directive: l.name, errs: &b.errs}
	d, known := directives[l.name]
	if !known {
		s.errorf("%s", refusal(l.name))
		return
	}
	seen := inBlock
	if d.times == oncePerFile {
		seen = b.seen
	}
	if before := seen[l.name]; before != nil && d.times != anyNumber {
		s.errorf("is there already, in line %d: must stand once", before.num)
		return
	}
	seen[l.name] = l
	d.read(b, s)
}

// checkListeners refuses a zone that two blocks serve at the same place.
func (b *builder) checkListeners() {
	type place struct {
		address Address
		bind    string
	}
	taken := map[place]*Server{}
	for _, s := range b.config.Servers {
		for _, a := range s.Addresses {
			for _, bind := range s.bindings() {
				here := place{a, bind}
				if other := taken[here]; other != nil {
					b.errs = append(b.errs, &Error{
						File: s.File, Line: s.Line, Subject: a.String(),
						Problem: fmt.Sprintf("is served already, by the block in line %d: must be in one block", other.Line),
					})
				}
				taken[here] = s
			}
		}
	}
}

// bindings returns where the block listens; "" is everywhere.
func (s *Server) bindings() []string {
	if len(s.Bind) == 0 {
		return []string{""}
	}
	return s.Bind
}
