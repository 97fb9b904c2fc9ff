package lab_test

import (
	"context"
	"fmt"

	"signpost/integration/lab"
)

// A pod asks another one on the other node. It needs root, so it has no output
// to be compared with.
func Example() {
	ctx := context.Background()
	l, err := lab.New(ctx, lab.Default(false), lab.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	answer, err := l.Exec(ctx, "pod-a", "curl", "-s", "172.16.58.10:80")
	fmt.Println(answer, err) // pod pod-c at 172.16.58.10:80, you are 172.16.85.10:…
}
