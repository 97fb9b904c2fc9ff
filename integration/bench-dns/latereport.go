package main

import (
	"cmp"
	"fmt"
	"time"
)

// corefiles are the flavours as people know them.
var corefiles = map[string]string{plain: "no cache", cached: "cache 30", kubeadm: "kubeadm's"}

// median returns the middle of the rounds, for each figure by itself.
func (l lateness) median() (after time.Duration, old int) {
	return middle(l.after, cmp.Compare[time.Duration]), middle(l.old, cmp.Compare[int])
}

// printLateHead prints what the table is about.
func printLateHead() {
	fmt.Printf("\nHow late a change shows: names asked for every %v while what they stand for changes;\n"+
		"time to the first new answer, and old answers after the change; medians of %d, one if it takes over %v\n\n",
		askEvery, lateRounds, slow)
	fmt.Printf("%-10s %-21s", "Corefile", "server")
	for _, c := range changes(0) {
		fmt.Printf(" │ %19s", c.kind)
	}
	fmt.Println()
}

// print prints a server's row.
func (r *lateRow) print() {
	fmt.Printf("%-10s %-21s", corefiles[r.flavour], r.server)
	for _, l := range r.kinds {
		after, old := l.median()
		fmt.Printf(" │ %10s %8d", after.Round(100*time.Microsecond), old)
	}
	fmt.Println()
}

// printLateRatio prints how many times later one server is than another that
// has the same source.
func printLateRatio(theirs, ours *lateRow) {
	fmt.Printf("%-10s %-21s", "", theirs.server+" ÷ "+ours.server)
	for i := range ours.kinds {
		later, _ := theirs.kinds[i].median()
		sooner, _ := ours.kinds[i].median()
		fmt.Printf(" │ %10.1f %8s", float64(later)/float64(sooner), "")
	}
	fmt.Println()
}
