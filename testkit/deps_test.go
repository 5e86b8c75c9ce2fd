package testkit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// forTestsOnly are the modules that only testkit and the tests need.
var forTestsOnly = []string{"github.com/alicebob/miniredis", "github.com/google/go-cmp", "go.uber.org/goleak", "github.com/yuin/gopher-lua", "pgregory.net/rapid"}

// A program that pushes and runs jobs has none of what tests need: neither in the
// binary nor in its go.mod, as go mod tidy writes it.
func TestAProgramNeedsNothingOfTests(t *testing.T) {
	if testing.Short() {
		t.Skip("makes another module")
	}
	root := harness.Must(filepath.Abs(".."))(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module shop\n\ngo 1.26.0\n\nrequire github.com/troupehq/troupe v0.0.0\n\nreplace github.com/troupehq/troupe => " + root + "\n",
		"main.go": `package main

import (
	_ "github.com/troupehq/troupe"
	_ "github.com/troupehq/troupe/actors"
	_ "github.com/troupehq/troupe/client"
)

func main() {}
`,
	} {
		harness.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("mod", "tidy")
	if err != nil && strings.Contains(out, "GOPROXY=off") {
		t.Skipf("the module cache has not all that go mod tidy looks at: %s", out)
	}
	if err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	mod := harness.Must(os.ReadFile(filepath.Join(dir, "go.mod")))(t)
	deps, err := run("list", "-deps", ".")
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, deps)
	}
	if !strings.Contains(deps, "github.com/troupehq/troupe/actors\n") || !strings.Contains(string(mod), "github.com/redis/go-redis/v9") {
		t.Fatalf("this is not the program:\n%s\n%s", mod, deps)
	}
	for _, module := range forTestsOnly {
		if strings.Contains(string(mod), module) {
			t.Errorf("go.mod names %s:\n%s", module, mod)
		}
		if strings.Contains(deps, module) {
			t.Errorf("the program is linked with %s", module)
		}
	}
}
