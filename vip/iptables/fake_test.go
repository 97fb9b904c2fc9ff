package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fakeTables is a runner that behaves like the commands: it holds tables, and
// refuses what they refuse. One family's commands of one variant share tables.
type fakeTables struct {
	tables map[string]map[string][]string // command and table: chain: rules
	writes uint32
	// fail lets a command fail before it does anything; nil: none fails.
	fail func(command string, args []string, stdin string) error
}

func newFakeTables() *fakeTables { return &fakeTables{tables: map[string]map[string][]string{}} }

func (f *fakeTables) find(name string) (string, error)      { return name, nil }
func (f *fakeTables) randomFully(path string) (bool, error) { return true, nil }

// generation counts writes, as the kernel does.
func (f *fakeTables) generation(context.Context) (uint32, error) { return f.writes, nil }

func (f *fakeTables) run(ctx context.Context, stdin []byte, name string, args ...string) (string, string, error) {
	if f.fail != nil {
		if err := f.fail(name, args, string(stdin)); err != nil {
			return "", "", err
		}
	}
	dash := max(0, strings.LastIndexByte(name, '-'))
	tool, verb := name[:dash], strings.TrimPrefix(name[dash:], "-")
	switch {
	case slices.Contains(args, "--version"):
		return "iptables v1.8.9 (nf_tables)", "", nil
	case verb == "save" && len(args) == 0:
		return f.save(tool, "filter") + f.save(tool, "nat"), "", nil
	case verb == "save":
		return f.save(tool, args[1]), "", nil
	case slices.Contains(args, "--test"):
		return "", "", nil
	default:
		return "", "", f.restore(tool, string(stdin))
	}
}

// table returns a table, which has the kernel's chains from the beginning.
func (f *fakeTables) table(tool, name string) map[string][]string {
	key := tool + " " + name
	if f.tables[key] == nil {
		f.tables[key] = map[string][]string{}
		for _, c := range hookChains {
			f.tables[key][c] = nil
		}
	}
	return f.tables[key]
}

func (f *fakeTables) save(tool, name string) string {
	var b strings.Builder
	chains := f.table(tool, name)
	fmt.Fprintf(&b, "*%s\n", name)
	for _, c := range slices.Sorted(maps.Keys(chains)) {
		fmt.Fprintf(&b, ":%s - [0:0]\n", c)
	}
	for _, c := range slices.Sorted(maps.Keys(chains)) {
		for _, r := range chains[c] {
			fmt.Fprintf(&b, "-A %s %s\n", c, r)
		}
	}
	b.WriteString("COMMIT\n")
	return b.String()
}

// dump returns everything that is held.
func (f *fakeTables) dump() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(f.tables)) {
		tool, name, _ := strings.Cut(key, " ")
		b.WriteString(f.save(tool, name))
	}
	return b.String()
}

func (f *fakeTables) restore(tool, text string) error {
	name, rest, _ := strings.Cut(strings.TrimPrefix(text, "*"), "\n")
	next := map[string][]string{}
	for c, rules := range f.table(tool, name) {
		next[c] = slices.Clone(rules)
	}
	number := 1
	for line := range strings.Lines(rest) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if line == "COMMIT" {
			break
		}
		if err := carryOut(next, line); err != nil {
			return refusedLine(tool, number, err.Error())
		}
	}
	if err := checkTargets(next); err != nil {
		return refusedLine(tool, number, err.Error())
	}
	f.tables[tool+" "+name] = next
	f.writes++
	return nil
}

func refusedLine(tool string, number int, why string) error {
	return &toolError{
		tool: tool + "-restore", status: statusBusy, state: "exit status 4",
		stderr: fmt.Sprintf("%s-restore v1.8.9 (nf_tables): \nline %d: RULE_APPEND failed (%s): rule in chain X\n", tool, number, why),
	}
}

func carryOut(chains map[string][]string, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	if strings.HasPrefix(line, ":") {
		chains[verb[1:]] = nil
		return nil
	}
	name, rule, _ := strings.Cut(rest, " ")
	rules, exists := chains[name]
	if !exists {
		return fmt.Errorf("no chain %q", name)
	}
	switch verb {
	case "-A":
		chains[name] = append(rules, rule)
	case "-I":
		chains[name] = slices.Insert(rules, 0, strings.TrimPrefix(rule, "1 "))
	case "-D":
		i := slices.Index(rules, rule)
		if i < 0 {
			return errors.New("no such rule")
		}
		chains[name] = slices.Delete(rules, i, i+1)
	case "-X":
		if len(rules) > 0 {
			return errors.New("not empty")
		}
		delete(chains, name)
	default:
		return fmt.Errorf("unknown verb %q", verb)
	}
	return nil
}

// checkTargets refuses rules that lead to a chain that isn't there.
func checkTargets(chains map[string][]string) error {
	for _, rules := range chains {
		for _, r := range rules {
			words := strings.Fields(r)
			target := words[len(words)-1]
			if _, exists := chains[target]; strings.HasPrefix(target, prefix) && !exists {
				return fmt.Errorf("no chain %q", target)
			}
		}
	}
	return nil
}
