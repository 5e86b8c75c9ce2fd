package troupe_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Every Go block of the README is a piece of a program under examples, which is
// compiled with everything else.
func TestReadmeCodeIsInTheExamples(t *testing.T) {
	readme := harness.Must(os.ReadFile("README.md"))(t)
	files := harness.Must(filepath.Glob("examples/*/*.go"))(t)
	var sources []string
	for _, f := range files {
		b := harness.Must(os.ReadFile(f))(t)
		sources = append(sources, string(b))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 3 {
		t.Fatalf("%d Go blocks in the README", len(blocks))
	}
	for _, b := range blocks {
		found := false
		for _, s := range sources {
			found = found || strings.Contains(s, b[1])
		}
		if !found {
			t.Errorf("this block of the README is in no example:\n%s", b[1])
		}
	}
}

// The quick start runs: a job is pushed, done, and TERM ends it with exit code 0.
func TestQuickStartRuns(t *testing.T) {
	rdb, url := redistest.New(t)
	bin := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./examples/quickstart").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, bin)
	cmd.Env = append(os.Environ(), "REDIS_URL="+url)
	cmd.Stderr = &log
	harness.OK(t, cmd.Start())
	harness.Must(client.New(rdb).PushClass(ctx, "Billing::ChargeCard", []any{42, 1999, "EUR"}, client.Queue("critical")))(t)
	for rdb.LLen(ctx, "queue:critical").Val() > 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond) // another process: nothing to wait on
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v\n%s", err, &log)
	}
	if got := rdb.Get(t.Context(), "stat:processed").Val(); got != "1" {
		t.Errorf("stat:processed is %q, want 1\n%s", got, &log)
	}
}
