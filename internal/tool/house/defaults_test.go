package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// defaulted are the settings whose defaults are constants of package limits, as they are called in Go.
var defaulted = []string{
	"Concurrency", "Timeout", "Grace", "Lease", "MaxRetries", "DeadMax", "DeadTimeout",
	"PollIntervalPerProcess", "HeartbeatInterval", "Window", "Recoveries",
}

// spelled finds a default in the comment of a setting.
var spelled = regexp.MustCompile(`\b0 means \d`)

// TestDefaultsAreWrittenOnce finds a default that is spelled beside package limits: as a literal
// with which a zero setting is replaced, as a constant of its own, or in the comment of a field.
func TestDefaultsAreWrittenOnce(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for _, dir := range []string{"actors", "fetch", "sched", "retry", "supervisor", "internal", "wire", "web", "testkit", "cmd", "ops", "inspect"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || d.Name() == "limits" || d.Name() == "proof" || d.Name() == "demo") {
				return filepath.SkipDir
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			set := token.NewFileSet()
			tree, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, at := range secondSpellings(tree) {
				t.Errorf("%s: a default that package limits has, expected its constant", set.Position(at))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSecondSpellingsAreFound(t *testing.T) {
	const src = `package x
const defaultLease = 30 * time.Second
type c struct {
	// Lease is one; 0 means 30 s.
	Lease time.Duration
	DeadMax int // 0 means 10
	Window int // fine
}
func f() {
	def(&c.Timeout, 25*time.Second)
	cfg.Lease = cmp.Or(cfg.Lease, 30*time.Second)
	if env.Lease <= 0 { env.Lease = 30 * time.Second }
	def(&c.Timeout, limits.Timeout)
	x := cmp.Or(cfg.Lease/2, limits.Lease)
}`
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "x.go", src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, at := range secondSpellings(tree) {
		lines = append(lines, set.Position(at).Line)
	}
	slices.Sort(lines)
	if want := []int{2, 5, 6, 10, 11, 12}; !slices.Equal(lines, want) {
		t.Errorf("found in lines %v, expected %v", lines, want)
	}
}

// secondSpellings are the places where a file spells a default.
func secondSpellings(tree *ast.File) (places []token.Pos) {
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if setting, ok := strings.CutPrefix(name.Name, "default"); ok && slices.Contains(defaulted, setting) && i < len(n.Values) && isLiteral(n.Values[i]) {
					places = append(places, n.Pos())
				}
			}
		case *ast.Field:
			for _, name := range n.Names {
				if slices.Contains(defaulted, name.Name) && spelled.MatchString(n.Doc.Text()+n.Comment.Text()) {
					places = append(places, name.Pos())
				}
			}
		case *ast.CallExpr: // def(&c.Lease, literal), cmp.Or(c.Lease, literal)
			if len(n.Args) == 2 && isSetting(n.Args[0]) && isLiteral(n.Args[1]) {
				places = append(places, n.Pos())
			}
		case *ast.IfStmt: // if c.Lease <= 0 { c.Lease = literal }
			if cond, ok := n.Cond.(*ast.BinaryExpr); !ok || !isSetting(cond.X) {
				break
			}
			for _, s := range n.Body.List {
				if a, ok := s.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && isSetting(a.Lhs[0]) && isLiteral(a.Rhs[0]) {
					places = append(places, a.Pos())
				}
			}
		}
		return true
	})
	return places
}

// isSetting tells whether an expression reads or points to a setting, as c.Lease and max(0, c.Lease) do.
func isSetting(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		return isSetting(e.X)
	case *ast.SelectorExpr:
		of, ok := e.X.(*ast.Ident)
		return slices.Contains(defaulted, e.Sel.Name) && (!ok || of.Name != "limits")
	case *ast.CallExpr:
		return slices.ContainsFunc(e.Args, isSetting)
	}
	return false
}

// isLiteral tells whether an expression is a number other than 0, or a span of time made of one.
func isLiteral(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.INT && e.Value != "0"
	case *ast.BinaryExpr:
		return isLiteral(e.X) || isLiteral(e.Y)
	}
	return false
}
