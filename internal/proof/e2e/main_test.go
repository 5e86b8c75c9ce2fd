package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
)

// TestMain runs the tests or, in a process that a test has started from this
// binary, the worker program.
func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // of go-redis: servers are killed here on purpose
	if spec := os.Getenv(workerEnv); spec != "" {
		os.Exit(workerMain(spec))
	}
	flag.Parse()
	// The tests wait for other processes most of the time.
	_ = flag.Set("test.parallel", "8")
	code := m.Run()
	if dir := buildDir; dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

var buildDir string

// binary is the path of the troupe command, built once per run, with the race
// detector if this test binary has it.
var binary = sync.OnceValues(func() (string, error) {
	// The test cache does not see what go build reads: looking at all folders
	// here makes it forget the result when a file of the module changes.
	if err := filepath.WalkDir("../../..", func(string, fs.DirEntry, error) error { return nil }); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "troupe-e2e-")
	if err != nil {
		return "", err
	}
	buildDir = dir
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

// soon is the limit of what should happen at once, on a loaded machine too.
const soon = 30 * time.Second

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
