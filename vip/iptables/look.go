package iptables

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// found is what one table holds of ours, and the jumps into it.
type found struct {
	chains  map[string]digest
	foreign map[string][]string // rules of chains that aren't ours, in order, as far as needed
}

// look reads a table.
func (t *tool) look(ctx context.Context, name table) (*found, error) {
	text, err := t.dump(ctx, name)
	if err != nil {
		return nil, err
	}
	f, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading table %q: %w", name, err)
	}
	return f, nil
}

// parse reads what iptables-save wrote. Text without its last line is refused:
// nothing is concluded from half a table (X07).
func parse(text string) (*found, error) {
	f := &found{chains: map[string]digest{}, foreign: map[string][]string{}}
	sums := map[string]*summer{}
	complete := true
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "*"):
			complete = false
		case line == "COMMIT":
			complete = true
		case strings.HasPrefix(line, ":"+prefix):
			name, _, _ := strings.Cut(line[1:], " ")
			sums[name] = newSummer()
		case strings.HasPrefix(line, "-A "):
			name, rule, _ := strings.Cut(line[len("-A "):], " ")
			if sum, ours := sums[name]; ours {
				sum.add(rule)
			} else {
				f.foreign[name] = append(f.foreign[name], rule)
			}
		}
	}
	if !complete {
		return nil, fmt.Errorf("its dump has no end")
	}
	for name, sum := range sums {
		f.chains[name] = sum.digest()
	}
	return f, nil
}

// leadsToUs reports whether a foreign chain's rule ends in one of our chains.
func leadsToUs(rule string) bool {
	for _, verb := range []string{"-j ", "-g "} {
		if _, target, ok := strings.Cut(" "+rule, " "+verb+prefix); ok && !strings.Contains(target, " ") {
			return true
		}
	}
	return false
}

// repairs returns the lines that make the jumps into our chains what they have
// to be: the first rules of their chains, and no others.
func (f *found) repairs(want []jump) []string {
	byChain := map[string][]string{}
	for _, j := range want {
		byChain[j.chain] = append(byChain[j.chain], j.text)
	}
	var lines []string
	for name, rules := range f.foreign {
		if _, ours := byChain[name]; !ours {
			lines = append(lines, deletions(name, rules)...)
		}
	}
	slices.Sort(lines)
	for _, name := range []string{"POSTROUTING", "INPUT", "FORWARD", "OUTPUT", "PREROUTING"} {
		wanted, rules := byChain[name], f.foreign[name]
		if len(wanted) == 0 || inPlace(rules, wanted) {
			continue
		}
		lines = append(lines, deletions(name, rules)...)
		for i := range wanted {
			lines = append(lines, "-I "+name+" 1 "+wanted[len(wanted)-1-i])
		}
	}
	return lines
}

// inPlace reports whether the wanted jumps come first and are the only ones.
func inPlace(rules, wanted []string) bool {
	return len(rules) >= len(wanted) && slices.Equal(rules[:len(wanted)], wanted) &&
		!slices.ContainsFunc(rules[len(wanted):], leadsToUs)
}

// deletions returns the lines that delete a foreign chain's jumps to us.
func deletions(name string, rules []string) []string {
	var lines []string
	for _, r := range rules {
		if leadsToUs(r) {
			lines = append(lines, "-D "+name+" "+r)
		}
	}
	return lines
}

// byTable cuts a dump of all tables into those that may hold ours.
func byTable(text string) map[table]string {
	parts := map[table]string{}
	for _, t := range tables {
		_, part, there := strings.Cut("\n"+text, "\n*"+t.String()+"\n")
		if there {
			body, _, complete := strings.Cut(part, "\nCOMMIT\n")
			parts[t] = "*" + t.String() + "\n" + body + "\n"
			if complete {
				parts[t] += "COMMIT\n"
			}
		}
	}
	return parts
}
