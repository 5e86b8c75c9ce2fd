package main

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// house is what was read of the module.
type house struct{ packages []*pkg }

type pkg struct {
	dir, name      string // dir is relative to the module
	files          []*file
	names, methods int    // exported
	doc            string // comment of the package, in one line
}

type file struct {
	path        string
	lines, code int
	words       []finding
}

// read parses every file of the module that is no test. Nested modules are left out.
func read(root string) (*house, error) {
	byDir := make(map[string]*pkg)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && (isModule(path) || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		if byDir[dir] == nil {
			byDir[dir] = &pkg{dir: dir}
		}
		return byDir[dir].add(path, filepath.ToSlash(rel))
	})
	if err != nil {
		return nil, err
	}
	h := &house{}
	for _, p := range byDir {
		h.packages = append(h.packages, p)
	}
	slices.SortFunc(h.packages, func(a, b *pkg) int { return cmp.Compare(a.dir, b.dir) })
	return h, nil
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// add reads one file.
func (p *pkg) add(path, name string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.name = tree.Name.Name
	if tree.Doc != nil {
		p.doc = strings.Join(strings.Fields(tree.Doc.Text()), " ")
	}
	f := &file{path: name, lines: bytes.Count(src, []byte("\n"))}
	p.files = append(p.files, f)
	f.code = f.lines - countBlank(src) - commentLines(set, tree, src)
	p.count(tree)
	f.words = wordsOf(set, tree, name)
	return nil
}

func countBlank(src []byte) (n int) {
	for line := range bytes.Lines(src) {
		if len(bytes.TrimSpace(line)) == 0 {
			n++
		}
	}
	return n
}

// commentLines counts the lines that hold a comment and nothing else, or are inside of one.
func commentLines(set *token.FileSet, tree *ast.File, src []byte) (n int) {
	lines := bytes.Split(src, []byte("\n"))
	for _, group := range tree.Comments {
		for _, c := range group.List {
			first, last := set.Position(c.Pos()), set.Position(c.End())
			for line := first.Line; line <= last.Line; line++ {
				text := lines[line-1]
				if line == first.Line && len(bytes.TrimSpace(text[:first.Column-1])) > 0 || len(bytes.TrimSpace(text)) == 0 {
					continue // code is before it, or the line counts as blank
				}
				n++
			}
		}
	}
	return n
}

// count counts exported names at top level, and methods of exported types.
func (p *pkg) count(tree *ast.File) {
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			switch {
			case !d.Name.IsExported():
			case d.Recv == nil:
				p.names++
			case receiver(d.Recv.List[0].Type).IsExported():
				p.methods++
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						p.names++
						if i, ok := s.Type.(*ast.InterfaceType); ok {
							p.methods += countExported(i.Methods.List)
						}
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if name.IsExported() {
							p.names++
						}
					}
				}
			}
		}
	}
}

func countExported(fields []*ast.Field) (n int) {
	for _, f := range fields {
		for _, name := range f.Names {
			if name.IsExported() {
				n++
			}
		}
	}
	return n
}

// receiver is the name of the type of a method.
func receiver(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e
	}
	return ast.NewIdent("_")
}

func (h *house) banned() (all []finding) {
	for _, p := range h.packages {
		for _, f := range p.files {
			all = append(all, f.words...)
		}
	}
	return all
}

func (h *house) byLines() (all []*file) {
	for _, p := range h.packages {
		all = append(all, p.files...)
	}
	slices.SortFunc(all, func(a, b *file) int { return cmp.Or(b.lines-a.lines, cmp.Compare(a.path, b.path)) })
	return all
}

// files are those of more than most lines, and those of less than least.
func (h *house) files(most, least int) (large, small []*file) {
	for _, f := range h.byLines() {
		switch {
		case f.lines > most:
			large = append(large, f)
		case f.lines < least:
			small = append(small, f)
		}
	}
	return large, small
}
