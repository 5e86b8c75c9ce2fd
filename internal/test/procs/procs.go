// Package procs runs the programs that tests are about: the test's own binary as a worker,
// the command troupe, and a real Sidekiq. Each ends with its test (package chaos).
package procs

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// workerEnv has the spec of a worker, as JSON.
const workerEnv = "TROUPE_TEST_WORKER"

// Main is the TestMain of a package that starts processes: it runs the tests or, in a
// process that Worker has started from this binary, the program worker, whose result is
// the exit code. What is in ends runs after the tests.
func Main[Spec any](m *testing.M, worker func(Spec) int, ends ...func()) {
	redis.SetLogger(silence{}) // of go-redis: servers are killed here on purpose
	if text, ok := os.LookupEnv(workerEnv); ok {
		var spec Spec
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(worker(spec))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // they wait for other processes most of the time
	code := m.Run()
	for _, end := range ends {
		end()
	}
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// Worker starts this binary as a worker, see Main.
func Worker(tb testing.TB, name string, spec any) *chaos.Process {
	tb.Helper()
	text := harness.Must(json.Marshal(spec))(tb)
	return chaos.Launch(tb, name, exec.CommandContext(context.Background(), harness.Must(os.Executable())(tb)), workerEnv+"="+string(text))
}

// built is the folder with the command, which Main removes.
var built string

var command = sync.OnceValues(func() (string, error) {
	// The test cache does not see what go build reads: looking at all folders
	// here makes it forget the result when a file of the module changes.
	if err := filepath.WalkDir("../../..", func(string, fs.DirEntry, error) error { return nil }); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "troupe-test-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "troupe")
	args := []string{"build", "-o", path}
	if harness.Race {
		args = append(args, "-race")
	}
	build := exec.CommandContext(context.Background(), "go", append(args, "github.com/troupehq/troupe/cmd/troupe")...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// Command is the path of the command troupe. It is built once per run, with the race
// detector if this binary has it.
func Command(tb testing.TB) string {
	tb.Helper()
	return harness.Must(command())(tb)
}

// Troupe runs the command troupe, in a folder that is empty.
func Troupe(tb testing.TB, env []string, args ...string) *chaos.Process {
	tb.Helper()
	cmd := exec.CommandContext(context.Background(), Command(tb), args...)
	cmd.Dir = tb.TempDir()
	return chaos.Launch(tb, "troupe "+args[0], cmd, env...)
}

// Sidekiq starts a real Sidekiq with an application, which says on stderr that it has
// started, and waits for that.
func Sidekiq(tb testing.TB, url, application, started string, flags ...string) *chaos.Process {
	tb.Helper()
	redistest.NeedSidekiq(tb)
	file := harness.Must(filepath.Abs(application))(tb)
	cmd := exec.CommandContext(context.Background(), "sidekiq", append([]string{"-r", file}, flags...)...)
	cmd.Dir = os.TempDir() // no config/sidekiq.yml there
	p := chaos.Launch(tb, "sidekiq", cmd, "REDIS_URL="+url, "RUBYOPT=-W0", "LANG=C.UTF-8")
	testkit.Await(tb, "sidekiq runs", func() bool { return strings.Contains(p.Stderr(), started) || !p.Running() })
	if !p.Running() {
		tb.Fatalf("sidekiq has ended: %s", p.Stderr())
	}
	return p
}
