package testkit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

const jobtests = "../examples/modules/jobtests"

// Every Go block of docs/testing.md is a piece of the example module.
func TestDocumentationIsCompiled(t *testing.T) {
	doc := harness.Must(os.ReadFile("../docs/testing.md"))(t)
	files := harness.Must(filepath.Glob(jobtests + "/*.go"))(t)
	var source strings.Builder
	for _, f := range files {
		b := harness.Must(os.ReadFile(f))(t)
		source.Write(b)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) < 5 {
		t.Fatalf("%d Go blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(source.String(), b[1]) {
			t.Errorf("not in %s:\n%s", jobtests, b[1])
		}
	}
}

// The module is as a user would have it, and its tests pass.
func TestExampleModulePasses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds another module")
	}
	// Vet would read the source of all that the module depends on. CI vets the module.
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "./...")
	cmd.Dir = jobtests
	// What this test's binary is compiled like has no say: as a release is, troupe is compiled once for all such modules.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go test in %s: %v\n%s", jobtests, err, out)
	}
}
