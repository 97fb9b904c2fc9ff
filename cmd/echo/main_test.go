package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		args []string
		says string
	}{
		{"nothing", nil, "nowhere to listen"},
		{"bad address", []string{"-listen", "127.1.0.1"}, `"127.1.0.1": must be ADDRESS:PORT`},
		{"a name without address", []string{"-pod", "web-1"}, "must be NAME=ADDRESS:PORT"},
		{"unknown flag", []string{"-tcp"}, "-tcp"},
		{"argument", []string{"-listen", "127.1.0.1:1", "now"}, `unexpected "now"`},
		{"help", []string{"-h"}, "-listen"},
	} {
		var errs bytes.Buffer
		if status := run(t.Context(), test.args, io.Discard, &errs); status != exitUsage || !strings.Contains(errs.String(), test.says) {
			t.Errorf("%s: status %d, %q", test.name, status, errs.String())
		}
	}
	var errs bytes.Buffer
	if status := run(t.Context(), []string{"-listen", "192.0.2.1:80"}, io.Discard, &errs); status != exitFailed || !strings.Contains(errs.String(), "192.0.2.1:80") {
		t.Errorf("not our address: status %d, %q", status, errs.String())
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		args := []string{"-name", "web-1", "-listen", "127.1.77.1:28080,127.1.77.1:28081", "-udp", "-pod", "web-2=127.1.77.2:28080"}
		if status := run(ctx, args, write, io.Discard); status != 0 {
			t.Errorf("status %d", status)
		}
		write.Close()
	})
	lines := bufio.NewScanner(read)
	for _, want := range []string{"pod web-2 at 127.1.77.2:28080", "pod web-1 at 127.1.77.1:28080", "pod web-1 at 127.1.77.1:28081"} {
		if lines.Scan(); lines.Text() != want {
			t.Fatalf("says %q, want %q", lines.Text(), want)
		}
	}
	r, err := http.Get("http://127.1.77.2:28080/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, _ := io.ReadAll(r.Body); !strings.HasPrefix(string(body), "pod web-2 at 127.1.77.2:28080, you are ") {
		t.Errorf("answers %q", body)
	}
	cancel()
	serving.Wait()
}
