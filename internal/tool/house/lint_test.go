// Package lintrules shows that the lint rules fire which keep out the parts of
// the actor library that are not to be used, and walks of the errors of handlers without
// an end: testdata/src is linted with the project's own configuration, in a module of the same name.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// want is the end of a line that a rule must find.
var want = regexp.MustCompile(`// want (\w+) (.+)$`)

type report struct {
	file   string
	line   int
	linter string
	text   string
}

func (f report) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.file, f.line, f.linter, f.text)
}

func TestEveryRuleFires(t *testing.T) {
	bin, err := linter(t)
	if err != nil {
		redistest.Missing(t, err)
	}
	root := harness.Must(filepath.Abs("../../.."))(t)
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", ".golangci.yml"} {
		write(t, filepath.Join(dir, name), contents(t, filepath.Join(root, name)))
	}
	// what the library's router needs and nothing else does: a stand-in
	const ring = "github.com/serialx/hashring"
	write(t, filepath.Join(dir, "go.mod"), contents(t, filepath.Join(dir, "go.mod"))+
		fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %[1]s => ./hashring\n", ring))
	write(t, filepath.Join(dir, "hashring/go.mod"), "module "+ring+"\n")
	write(t, filepath.Join(dir, "hashring/hashring.go"), hashring)
	var wanted []report
	for _, file := range []string{"actors/offences.go", "elsewhere/offences.go", "retry/offences.go"} {
		source := contents(t, filepath.Join("testdata/src", file))
		write(t, filepath.Join(dir, file), source)
		for i, line := range strings.Split(source, "\n") {
			if m := want.FindStringSubmatch(line); m != nil {
				wanted = append(wanted, report{file, i + 1, m[1], m[2]})
			}
		}
	}
	if len(wanted) < 25 {
		t.Fatalf("only %d rules are wanted", len(wanted))
	}
	found := lint(t, bin, dir)
	for _, w := range wanted {
		i := slices.IndexFunc(found, func(f report) bool {
			return f.file == w.file && f.line == w.line && f.linter == w.linter && strings.Contains(f.text, w.text)
		})
		if i < 0 {
			t.Errorf("not found: %s", w)
			continue
		}
		found = slices.Delete(found, i, i+1)
	}
	for _, f := range found {
		t.Errorf("found, not wanted: %s", f)
	}
}

const hashring = `package hashring

type HashRing struct{}

func New([]string) *HashRing { return nil }

func (*HashRing) GetNode(string) (string, bool) { return "", false }
`

// linter is the one that .ci/lint installs.
func linter(t *testing.T) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOPATH").Output()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(strings.TrimSpace(string(out)), "bin", "golangci-lint")
	if _, err := os.Stat(bin); err != nil {
		return "", fmt.Errorf("%w (make lint installs it)", err)
	}
	return bin, nil
}

// lint needs no network: all that is imported is in the module cache.
func lint(t *testing.T, bin, dir string) (found []report) {
	t.Helper()
	// Without the flag a second linter on the machine ends with an error.
	cmd := exec.CommandContext(t.Context(), bin, "run", "--allow-parallel-runners", "--enable-only=depguard,forbidigo", "--max-same-issues=0",
		"--max-issues-per-linter=0", "--output.json.path=stdout", "--show-stats=false", "--issues-exit-code=0", "./...")
	cmd.Dir = dir
	// as make lint and the tests compile, so that what is imported is compiled once
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "CGO_ENABLED=0", "GOPROXY=off", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("golangci-lint: %v\n%s", err, stderr.String())
	}
	var answer struct {
		Issues []struct {
			FromLinter, Text string
			Pos              struct {
				Filename string
				Line     int
			}
		}
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v in\n%s\n%s", err, out, stderr.String())
	}
	for _, i := range answer.Issues {
		found = append(found, report{filepath.ToSlash(i.Pos.Filename), i.Pos.Line, i.FromLinter, i.Text})
	}
	return found
}

func contents(t *testing.T, file string) string {
	t.Helper()
	b := harness.Must(os.ReadFile(file))(t)
	return string(b)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	harness.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
	harness.OK(t, os.WriteFile(file, []byte(content), 0o600))
}
