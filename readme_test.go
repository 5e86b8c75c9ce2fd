package troupe_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
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
	if len(blocks) < 2 {
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

// The first program of the README in a new folder beside the checkout, with the README's own
// commands: it says hello, and TERM ends it with exit code 0.
func TestTheFirstProgramRunsFromACheckout(t *testing.T) {
	readme := harness.Must(os.ReadFile("README.md"))(t)
	program := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindSubmatch(readme)
	commands := regexp.MustCompile("(?s)```sh\n(go mod init[^`]*?)go run").FindSubmatch(readme)
	if program == nil || commands == nil {
		t.Fatal("no program, or no commands, in the README")
	}
	checkout := harness.Must(filepath.Abs("."))(t)
	dir := filepath.Join(t.TempDir(), "hello")
	harness.OK(t, errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "main.go"), program[1], 0o600)))
	sh := strings.ReplaceAll(string(commands[1]), "../troupe", "'"+checkout+"'") + "go build -o hello ."
	build := exec.CommandContext(t.Context(), "sh", "-ec", sh)
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=", "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", sh, err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./hello")
	cmd.Dir = dir
	out := harness.Must(cmd.StdoutPipe())(t)
	harness.OK(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "hello Ada\n" {
		t.Errorf("it prints %q: %v", line, err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
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
	harness.Must(client.New(rdb).PushClass(ctx, "Billing::ChargeCard", []any{42, 1999, "EUR"}, client.Queue("charges")))(t)
	for rdb.LLen(ctx, "queue:charges").Val() > 0 && ctx.Err() == nil {
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
