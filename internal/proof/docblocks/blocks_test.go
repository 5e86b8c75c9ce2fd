// Package docblocks proves that what the documentation shows of Go is Go: every
// block of the manuals, of the READMEs and of the doc comments is compiled and
// vetted, and every name in backticks exists.
package docblocks

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

const root = "../../.."

// block is one piece of Go in the documentation.
type block struct {
	file string // from the root of the repository
	line int    // of its first line
	text string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

// prelude names the files, from the root, whose declarations a reader of a page,
// or of the comments of a folder, has in mind. testdata/common.go is for all.
var prelude = map[string][]string{
	"README.md":           {"examples/quickstart/main.go", "examples/iterable/main.go", "internal/proof/docblocks/testdata/readme.go"},
	"docs/guide.md":       {"examples/quickstart/main.go", "internal/proof/docblocks/testdata/readme.go", "internal/proof/docblocks/testdata/reliability.go", "internal/proof/docblocks/testdata/effects.go"},
	"docs/effects.md":     {"examples/quickstart/main.go", "internal/proof/docblocks/testdata/readme.go", "internal/proof/docblocks/testdata/effects.go"},
	"docs/batches.md":     {"internal/proof/docblocks/testdata/batches/batches.go"},
	"docs/outbox.md":      {"examples/quickstart/main.go"},
	"docs/once.md":        {"examples/quickstart/main.go", "internal/proof/docblocks/testdata/once/once.go"},
	"outbox":              {"internal/proof/docblocks/testdata/outbox/outbox.go"},
	"docs/unique.md":      {"examples/quickstart/main.go", "internal/proof/docblocks/testdata/readme.go", "internal/proof/docblocks/testdata/unique.go"},
	"docs/results.md":     {"internal/proof/docblocks/testdata/results/results.go"},
	"docs/limits.md":      {"internal/proof/docblocks/testdata/limits.go"},
	"docs/encryption.md":  {"internal/proof/docblocks/testdata/encryption.go"},
	"docs/reliability.md": {"internal/proof/docblocks/testdata/reliability.go"},
	"docs/go-workers.md":  {"internal/proof/docblocks/testdata/goworkers.go"},
	"docs/laravel.md":     {"internal/proof/docblocks/testdata/laravel.go"},
	"docs/periodic.md":    {"internal/proof/docblocks/testdata/periodic.go"},
	"docs/from-river.md":  {"internal/proof/docblocks/testdata/fromriver.go"},
	"docs/metrics.md":     {"internal/proof/docblocks/testdata/metrics.go"},
	"docs/scaling.md":     {"internal/proof/docblocks/testdata/scaling.go"},
	"docs/tracing.md":     {"internal/proof/docblocks/testdata/tracing.go"},
	"docs/testing.md":     {"examples/modules/jobtests/billing.go", "examples/modules/jobtests/billing_test.go"},
	"examples/rails-to-go/README.md": {
		"examples/rails-to-go/prices/price.go", "examples/rails-to-go/prices/main.go", "internal/proof/docblocks/testdata/rails.go",
	},
	"examples/laravel-to-go/README.md": {"examples/laravel-to-go/thumbs/thumbnail.go", "examples/laravel-to-go/thumbs/main.go", "internal/proof/docblocks/testdata/laravelexample.go"},
	"actors":                           {"internal/proof/docblocks/testdata/readme.go", "examples/quickstart/main.go"},
	".":                                {"examples/quickstart/main.go", "internal/proof/docblocks/testdata/tour.go"},
	"client":                           {"examples/quickstart/main.go", "internal/proof/docblocks/testdata/readme.go"},
	"testkit/chaos":                    {"internal/proof/docblocks/testdata/testkit.go"},
	"testkit":                          {"examples/quickstart/main.go", "internal/proof/docblocks/testdata/testkit.go"},
	"web":                              {"internal/proof/docblocks/testdata/web.go"},
	"fetch/fetchtest":                  {"internal/proof/docblocks/testdata/fetchtest.go"},
}

// The blocks are packages, one each, of a module of their own, as a user's.
func TestEveryGoBlockCompiles(t *testing.T) {
	t.Parallel()
	blocks := append(ofPages(t), ofComments(t)...)
	if len(blocks) < 30 {
		t.Fatalf("%d Go blocks in the documentation", len(blocks))
	}
	dir := t.TempDir()
	write := func(name string, text []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		harness.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		harness.OK(t, os.WriteFile(path, text, 0o600))
	}
	for name, text := range module(t) {
		write(name, text)
	}
	for i, b := range blocks {
		files, err := compilable(b, i)
		if err != nil {
			t.Errorf("%s: %v", b, err)
		}
		for name, text := range files {
			write(filepath.Join(fmt.Sprintf("block%d", i), name), text)
		}
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", "./...")
	vet.Dir = dir
	vet.Env = append(os.Environ(), "GOWORK=", "GOPROXY=off")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("go vet of the Go blocks of the documentation: %v\n%s", err, out)
	}
}

// module has the files of a module in a workspace with this one as it is here: what both compile is
// compiled once, and not again as a dependency of another module.
func module(t *testing.T) map[string][]byte {
	t.Helper()
	top := harness.Must(filepath.Abs(root))(t)
	version := regexp.MustCompile(`(?m)^go \S+$`).Find(harness.Must(os.ReadFile(filepath.Join(root, "go.mod")))(t))
	return map[string][]byte{
		"go.mod":  fmt.Appendf(nil, "module documentation\n\n%s\n", version),
		"go.work": fmt.Appendf(nil, "%s\n\nuse (\n\t.\n\t%q\n)\n", version, top),
	}
}

// The fields of a struct are named, in the documentation and in the examples, so
// that go vet is content with the same lines in a program that has the type from
// another package.
func TestLiteralsHaveKeys(t *testing.T) {
	t.Parallel()
	for _, b := range append(ofPages(t), ofComments(t)...) {
		parts, err := split(b)
		if err != nil {
			continue // told by TestEveryGoBlockCompiles
		}
		for _, part := range parts {
			for _, typ := range withoutKeys(part) {
				t.Errorf("%s: fields of %s without their names", b, typ)
			}
		}
	}
	for _, name := range exampleFiles(t) {
		f := harness.Must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		for _, typ := range withoutKeys(f) {
			t.Errorf("%s: fields of %s without their names", name, typ)
		}
	}
}

// withoutKeys are the types of the literals in f whose elements have no keys,
// but for those that are known to be slices.
func withoutKeys(f *ast.File) (out []string) {
	check := func(lit *ast.CompositeLit, typ ast.Expr) {
		switch typ.(type) {
		case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr:
		default:
			return
		}
		if len(lit.Elts) == 0 || strings.HasSuffix(source(typ), ".Strict") || strings.HasSuffix(source(typ), ".WeightedList") {
			return
		}
		if _, ok := lit.Elts[0].(*ast.KeyValueExpr); !ok {
			out = append(out, source(typ))
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		check(lit, lit.Type)
		if array, ok := lit.Type.(*ast.ArrayType); ok {
			for _, e := range lit.Elts {
				if inner, ok := e.(*ast.CompositeLit); ok && inner.Type == nil {
					check(inner, array.Elt)
				}
			}
		}
		return true
	})
	return out
}

// exampleFiles are the programs under examples, and the examples of packages.
func exampleFiles(t *testing.T) (out []string) {
	t.Helper()
	for _, dir := range folders(t) {
		files := harness.Must(filepath.Glob(filepath.Join(root, dir, "*example_test.go")))(t)
		out = append(out, files...)
		if strings.HasPrefix(dir, "examples/") {
			files, _ = filepath.Glob(filepath.Join(root, dir, "*.go"))
			out = append(out, files...)
		}
	}
	return out
}

// source is the name of a type, as it is written.
func source(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return source(e.X) + "." + e.Sel.Name
	case *ast.IndexExpr:
		return source(e.X)
	}
	return "?"
}

// pages are the manuals and the READMEs.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md"}
	for _, dir := range []string{"docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".md") {
				rel, _ := filepath.Rel(root, path)
				list = append(list, filepath.ToSlash(rel))
			}
			return err
		})
		harness.OK(t, err)
	}
	return list
}

func ofPages(t *testing.T) (out []block) {
	t.Helper()
	fence := regexp.MustCompile("(?ms)^```go\n(.*?)^```")
	for _, page := range pages(t) {
		text := harness.Must(os.ReadFile(filepath.Join(root, page)))(t)
		for _, m := range fence.FindAllSubmatchIndex(text, -1) {
			out = append(out, block{page, 1 + bytes.Count(text[:m[2]], []byte("\n")), string(text[m[2]:m[3]])})
		}
	}
	return out
}

// looksLikeGo is what no diagram or table has.
var looksLikeGo = regexp.MustCompile(`:=|\bfunc \(?\w|\b[a-z]\w*\.[A-Z]\w*\(|[})]\n*$`)

// ofComments are the Go blocks of the doc comments of packages that can be
// imported. Other indented text, such as a diagram, has no mark of Go.
func ofComments(t *testing.T) (out []block) {
	t.Helper()
	for _, dir := range folders(t) {
		files := harness.Must(filepath.Glob(filepath.Join(root, dir, "*.go")))(t)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			f := harness.Must(parser.ParseFile(set, name, nil, parser.ParseComments))(t)
			rel, _ := filepath.Rel(root, name)
			for _, group := range f.Comments {
				var p comment.Parser
				for _, part := range p.Parse(group.Text()).Content {
					if code, ok := part.(*comment.Code); ok && looksLikeGo.MatchString(code.Text) {
						out = append(out, block{filepath.ToSlash(rel), set.Position(group.Pos()).Line + lineOf(group, code.Text), code.Text})
					}
				}
			}
		}
	}
	return out
}

// lineOf is the line of a comment at which a piece of it begins, from 0.
func lineOf(group *ast.CommentGroup, code string) int {
	first, _, _ := strings.Cut(code, "\n")
	for i, c := range group.List {
		if strings.Contains(c.Text, first) {
			return i
		}
	}
	return 0
}

// folders are those of the packages that can be imported, and of the command.
func folders(t *testing.T) (out []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch {
		case rel != "." && strings.HasPrefix(d.Name(), "."), d.Name() == "testdata", d.Name() == "internal", rel == "bench", rel == "docs", rel == "examples":
			return fs.SkipDir
		}
		if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 {
			out = append(out, filepath.ToSlash(rel))
		}
		return nil
	})
	harness.OK(t, err)
	return out
}
