// Package railstogo has no code: the app is in Ruby, the moved worker in prices.
package railstogo

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit/chaos"
)

// make example runs both sides on one Redis, finds no difference, and leaves
// nothing behind.
func TestTheWalkFindsNoDifference(t *testing.T) {
	t.Parallel()
	// The test cache does not see what make reads: looking at all folders here
	// makes it forget the result when a file of the module changes.
	if err := filepath.WalkDir("../..", func(string, fs.DirEntry, error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	redistest.New(t)
	if err := exec.CommandContext(t.Context(), "ruby", "-rsidekiq", "-e", "0").Run(); err != nil {
		redistest.Missing(t, err)
	}
	tmp := t.TempDir()
	cmd := exec.CommandContext(context.Background(), "make", "-s", "-C", "../..", "example")
	p := chaos.Launch(t, "make example", cmd, "TMPDIR="+tmp)
	if code := p.Exit(5 * time.Minute); code != 0 {
		t.Errorf("exit code %d", code)
	}
	out := p.Stdout()
	for _, want := range []string{
		"queues prices, 20 threads",
		"shop: pid", "queues default, mailers, 5 threads",
		"ok     the prices are the same",
		"ok     the statistics are the same",
		"ok     every other byte is the same",
		"ok     the job that failed in Go has succeeded in Ruby",
		"== PriceWorker moved, and nothing else changed",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if strings.Contains(out, "NOT OK") {
		t.Error("it has found a difference")
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The code in the README is that of the files.
func TestTheReadmeShowsTheFiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, pattern := range []string{"app/*.rb", "app/workers/*.rb", "config/*.yml", "prices/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(text)
		}
	}
	blocks := regexp.MustCompile("(?s)```(?:ruby|go|yaml)\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) < 4 {
		t.Fatalf("%d blocks of code", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(sources.String(), string(b[1])) {
			t.Errorf("in no file:\n%s", b[1])
		}
	}
}
