package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// TestSleeps finds each time.Sleep of a test that waits for real time and does not say why
// in a comment on its line or the line above. In a testing/synctest bubble a sleep
// costs nothing.
func TestSleeps(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	found := make(map[string][]string) // files of a folder
	harness.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			found[filepath.Dir(path)] = append(found[filepath.Dir(path)], path)
		}
		return nil
	}))
	if len(found) < 50 {
		t.Fatalf("only %d folders have tests", len(found))
	}
	for _, files := range found {
		for _, where := range harness.Must(sleeps(files))(t) {
			t.Errorf("%s: time.Sleep in real time: wait for a condition (harness.Await), or say why in a comment beside it", where)
		}
	}
}

func TestSleepsFindsThose(t *testing.T) {
	file := filepath.Join("testdata", "sleeps", "sleeps_test.go")
	var want []string
	for i, line := range strings.Split(contents(t, file), "\n") {
		if strings.HasSuffix(line, "time.Sleep(real)") {
			want = append(want, file+":"+strconv.Itoa(i+1))
		}
	}
	if got := harness.Must(sleeps([]string{file}))(t); len(want) != 5 || !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// bubbles tells what of a package's tests runs in virtual time: what is written in the call
// of a function that runs bubbles, and the functions that only such code uses.
type bubbles struct {
	runners map[string]bool      // functions that run one: synctest.Test, and those that hand their own to it
	uses    map[string][]use     // of each function of the package
	inside  map[string]bool      // functions that run in one only
	files   map[string]*ast.File // by path
	within  map[ast.Node]use     // each sleep
}

// use is where something is used: in which function, and whether in a bubble there.
type use struct {
	fn     string
	bubble bool
}

// sleeps returns the places of the sleeps in real time that have no comment.
func sleeps(files []string) (found []string, err error) {
	set := token.NewFileSet()
	b := bubbles{
		runners: map[string]bool{"synctest.Test": true, "testkit.Virtual": true}, uses: map[string][]use{}, inside: map[string]bool{},
		files: map[string]*ast.File{}, within: map[ast.Node]use{},
	}
	for _, path := range files {
		if b.files[path], err = parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return nil, err
		}
	}
	b.eachFunc(func(f *ast.FuncDecl) { b.uses[f.Name.Name] = nil })
	b.eachFunc(func(f *ast.FuncDecl) {
		if takesFunc(f.Type) && calls(f, "synctest.Test") {
			b.runners[f.Name.Name] = true
		}
	})
	b.eachFunc(func(f *ast.FuncDecl) { b.look(f.Body, use{fn: f.Name.Name}) })
	for grown := true; grown; {
		grown = false
		for name, uses := range b.uses {
			if !b.inside[name] && len(uses) > 0 && !slices.ContainsFunc(uses, func(u use) bool { return !u.bubble && !b.inside[u.fn] && u.fn != name }) {
				b.inside[name], grown = true, true
			}
		}
	}
	said := make(map[string]bool) // lines with a comment
	for _, file := range b.files {
		for _, group := range file.Comments {
			end := set.Position(group.End())
			said[end.Filename+":"+strconv.Itoa(end.Line)], said[end.Filename+":"+strconv.Itoa(end.Line+1)] = true, true
		}
	}
	for node, at := range b.within {
		p := set.Position(node.Pos())
		if where := p.Filename + ":" + strconv.Itoa(p.Line); !at.bubble && !b.inside[at.fn] && !said[where] {
			found = append(found, where)
		}
	}
	slices.Sort(found)
	return found, nil
}

func (b *bubbles) eachFunc(do func(f *ast.FuncDecl)) {
	for _, file := range b.files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				do(f)
			}
		}
	}
}

// look notes the sleeps and the uses of functions in a piece of code.
func (b *bubbles) look(n ast.Node, at use) {
	if n == nil {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := nameOf(n.Fun)
			if name == "time.Sleep" {
				b.within[n] = at
			}
			in := at
			in.bubble = at.bubble || b.runners[name]
			b.look(n.Fun, at)
			for _, arg := range n.Args {
				b.look(arg, in)
			}
			return false
		case *ast.Ident:
			if _, ok := b.uses[n.Name]; ok {
				b.uses[n.Name] = append(b.uses[n.Name], at)
			}
		}
		return true
	})
}

// nameOf is the name of what is called: that of a function or method, or package.Function.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && (x.Name == "synctest" || x.Name == "time" || x.Name == "testkit") {
			return x.Name + "." + e.Sel.Name
		}
		return e.Sel.Name
	}
	return ""
}

func calls(f *ast.FuncDecl, name string) (yes bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		yes = yes || ok && nameOf(c.Fun) == name
		return !yes
	})
	return yes
}

func takesFunc(t *ast.FuncType) bool {
	return slices.ContainsFunc(t.Params.List, func(f *ast.Field) bool { _, ok := f.Type.(*ast.FuncType); return ok })
}
