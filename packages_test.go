package troupe_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// The tables of the documentation name each package that a program can import, and the first screen of
// go doc has its own.
func TestTheTablesNameEveryPackage(t *testing.T) {
	doc, api, readme := harness.Must(os.ReadFile("doc.go"))(t), harness.Must(os.ReadFile("docs/api.md"))(t), harness.Must(os.ReadFile("README.md"))(t)
	lines := strings.Split(string(doc), "\n")
	screen := strings.Join(lines[:min(len(lines), 30)], "\n") + "\n"
	seen := map[string]bool{}
	harness.OK(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch name := d.Name(); {
			case path == ".":
			case name == "internal", name == "testdata", name == "examples", name == "cmd", name == "deploy", name == "bench", name == "browser", name == "peers", strings.HasPrefix(name, "."):
				return fs.SkipDir
			}
			return nil
		}
		if dir := filepath.Dir(path); dir != "." && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			seen[filepath.ToSlash(dir)] = true
		}
		return nil
	}))
	if len(seen) < 15 {
		t.Fatalf("only the packages %v", seen)
	}
	for name := range seen {
		if !strings.Contains(screen, " "+name+"\n") && !strings.Contains(screen, " "+name+", ") {
			t.Errorf("the first screen of go doc does not name %s", name)
		}
		if !strings.Contains(string(api), "`"+name+"` |") && !strings.Contains(string(api), "`"+name+"`, ") {
			t.Errorf("docs/api.md does not name %s", name)
		}
	}
	if !strings.Contains(string(readme), "## Which package do I need") {
		t.Error("the README has no such table")
	}
}
