// Package deploy has the files with which platforms run the daemon. These tests hold them to what the
// daemon does, and run what they say without the platforms.
package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// read reads a file.
func read(t *testing.T, name string) string {
	t.Helper()
	b := harness.Must(os.ReadFile(name))(t)
	return string(b)
}

// instruction is one of a Dockerfile, in the last stage or before.
type instruction struct {
	name, text string
	last       bool
}

func dockerfile(t *testing.T) (all []instruction) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(read(t, "docker/Dockerfile"), "\\\n", "")) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if name == "FROM" {
			for i := range all {
				all[i].last = false
			}
		}
		all = append(all, instruction{name, text, true})
	}
	return all
}

// one is the only instruction of this name in the last stage.
func one(t *testing.T, all []instruction, name string) string {
	t.Helper()
	var found []string
	for _, i := range all {
		if i.last && i.name == name {
			found = append(found, i.text)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d instructions %s: %q", len(found), name, found)
	}
	return found[0]
}

// words are the command of an instruction that is a list: what runs is the program and not a shell.
func words(t *testing.T, text string) (list []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text[strings.Index(text, "["):]), &list); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return list
}

var built struct {
	sync.Once
	dir, program string
	err          error
}

// program is what the image's build step builds, run here.
func program(t *testing.T) string {
	t.Helper()
	step := ""
	for _, i := range dockerfile(t) {
		if i.name == "RUN" && strings.Contains(i.text, "go build") {
			step = i.text
		}
	}
	built.Do(func() { build(step) })
	if built.err != nil {
		t.Fatalf("%s: %v", step, built.err)
	}
	return built.program
}

func build(step string) {
	if built.dir, built.err = os.MkdirTemp("", "deploy"); built.err != nil {
		return
	}
	built.program = filepath.Join(built.dir, "troupe")
	cmd := exec.Command("sh", "-c", strings.Replace(step, "/out/troupe", built.program, 1))
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "COMMIT=0123456789abcdef", "DATE=2026-11-24T12:00:00Z", "GOFLAGS=-buildvcs=false")
	out, err := cmd.CombinedOutput()
	if _, missing := os.Stat(built.program); err != nil || missing != nil {
		built.err = fmt.Errorf("%w\n%s", errors.Join(err, missing), out)
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// freePort is the number of one.
func freePort(t *testing.T) string {
	t.Helper()
	l := harness.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
