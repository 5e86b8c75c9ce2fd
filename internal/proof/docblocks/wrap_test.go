package docblocks

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// imports are the packages that a block may name.
var imports = func() map[string]string {
	out := map[string]string{}
	for p := range strings.FieldsSeq(`bufio context crypto/hmac crypto/sha256 encoding/hex errors fmt io log log/slog net/http os os/exec
		slices strconv strings sync syscall testing testing/synctest time
		github.com/rs/zerolog github.com/asynkron/protoactor-go/actor
		github.com/troupehq/troupe github.com/troupehq/troupe/actors github.com/troupehq/troupe/client
		github.com/troupehq/troupe/event github.com/troupehq/troupe/fetch github.com/troupehq/troupe/fetch/fetchtest github.com/troupehq/troupe/inspect github.com/troupehq/troupe/ops github.com/troupehq/troupe/outbox database/sql
		github.com/troupehq/troupe/supervisor github.com/troupehq/troupe/testkit github.com/troupehq/troupe/testkit/chaos
		github.com/troupehq/troupe/testkit/script github.com/troupehq/troupe/trace go.opentelemetry.io/otel
		github.com/troupehq/troupe/wire/goworkers github.com/troupehq/troupe/wire/laravel github.com/troupehq/troupe/web`) {
		out[path.Base(p)] = p
	}
	out["metric"] = "go.opentelemetry.io/otel/sdk/metric"
	out["prometheus"] = "github.com/prometheus/client_golang/prometheus"
	out["redis"] = "github.com/redis/go-redis/v9"
	out["oteltrace"] = "go.opentelemetry.io/otel/trace"
	out["sdktrace"] = "go.opentelemetry.io/otel/sdk/trace"
	return out
}()

// chunk is a piece of a block between empty lines: declarations or statements.
type chunk struct {
	text string
	line int // in the block, from 0
	decl bool
}

// chunks takes a block apart where its declarations end and its statements begin.
func chunks(text string) (out []chunk, err error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for from := 0; from < len(lines); {
		if strings.TrimSpace(lines[from]) == "" {
			from++
			continue
		}
		to := 0
		var kind bool
		for end := from + 1; end <= len(lines); end++ { // the shortest piece that parses
			if end < len(lines) && strings.TrimSpace(lines[end]) != "" {
				continue
			}
			piece := strings.Join(lines[from:end], "\n")
			if _, e := parse(piece, true); e == nil {
				to, kind = end, true
				break
			}
			var e error
			if _, e = parse(piece, false); e == nil {
				to, kind = end, false
				break
			}
			err = e
		}
		if to == 0 {
			return nil, err
		}
		out = append(out, chunk{strings.Join(lines[from:to], "\n") + "\n", from, kind})
		from = to
	}
	return out, nil
}

func parse(text string, decl bool) (*ast.File, error) {
	head, tail := "package p\n", ""
	if !decl {
		head, tail = "package p; func _() {\n", "\n}"
	}
	return parser.ParseFile(token.NewFileSet(), "", head+text+tail, 0)
}

// split parses the pieces of a block.
func split(b block) (out []*ast.File, err error) {
	if whole(b) {
		f, err := parser.ParseFile(token.NewFileSet(), b.file, b.text, parser.SkipObjectResolution)
		return []*ast.File{f}, err
	}
	list, err := chunks(b.text)
	for _, c := range list {
		f, e := parse(c.text, c.decl)
		if e != nil {
			return nil, e
		}
		out = append(out, f)
	}
	return out, err
}

// whole tells of a program that is shown as it is.
func whole(b block) bool { return strings.HasPrefix(b.text, "package ") }

// compilable makes files of a package of a block: the block, whose statements
// are in a function, and the declarations around it that it does not have itself.
func compilable(b block, n int) (map[string][]byte, error) {
	if whole(b) {
		return map[string][]byte{"main.go": []byte(b.text)}, nil
	}
	list, err := chunks(b.text)
	if err != nil {
		return nil, err
	}
	pkg := fmt.Sprintf("block%d", n)
	var decls, body bytes.Buffer
	returns, ended := false, false
	for _, c := range list {
		at := fmt.Sprintf("//line %s:%d\n", b.file, b.line+c.line)
		if c.decl {
			decls.WriteString(at + c.text + "\n")
			continue
		}
		text, r, e := use(c.text)
		if e != nil {
			return nil, e
		}
		returns, ended = returns || r, e == nil && endsWithReturn(c.text)
		body.WriteString(at + text + "\n")
	}
	result := ""
	if returns {
		result = " error"
		if !ended {
			body.WriteString("return nil\n")
		}
	}
	text := decls.String()
	if body.Len() > 0 {
		text += "func _()" + result + " {\n" + body.String() + "}\n"
	}
	own, err := parse(text, true)
	if err != nil {
		return nil, err
	}
	names := declared(own)
	around, err := preludeOf(b, names)
	if err != nil {
		return nil, err
	}
	parsed, err := parse(around, true)
	if err != nil {
		return nil, fmt.Errorf("prelude: %w", err)
	}
	known := slices.Concat(names, declared(parsed))
	return map[string][]byte{
		"block.go":   []byte("package " + pkg + "\n" + importsOf(own, known) + text),
		"prelude.go": []byte("package " + pkg + "\n" + importsOf(parsed, known) + around),
	}, nil
}

// use adds an assignment to _ behind each definition of a piece of statements,
// since a fragment need not use all that it shows; it reports whether the piece
// returns an error.
func use(text string) (string, bool, error) {
	const head = "package p; func _() {\n"
	f, err := parse(text, false)
	if err != nil {
		return "", false, err
	}
	fn := f.Decls[0].(*ast.FuncDecl)
	type insertion struct {
		at   int
		text string
	}
	var add []insertion
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		s, ok := n.(*ast.AssignStmt)
		if !ok || s.Tok != token.DEFINE || !inBlock(fn.Body, s) {
			return true
		}
		for _, e := range s.Lhs {
			if id, ok := e.(*ast.Ident); ok && id.Name != "_" {
				add = append(add, insertion{int(s.End()) - 1 - len(head), "; _ = " + id.Name})
			}
		}
		return true
	})
	slices.SortStableFunc(add, func(a, b insertion) int { return b.at - a.at })
	for _, i := range add {
		text = text[:i.at] + i.text + text[i.at:]
	}
	returns := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			returns = returns || len(n.Results) > 0
		}
		return true
	})
	return text, returns, nil
}

// inBlock reports whether s is a statement of a block, not the head of an if or a loop.
func inBlock(body *ast.BlockStmt, s ast.Stmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if b, ok := n.(*ast.BlockStmt); ok && slices.Contains(b.List, s) {
			found = true
		}
		return !found
	})
	return found
}

func endsWithReturn(text string) bool {
	f, err := parse(text, false)
	if err != nil {
		return false
	}
	list := f.Decls[0].(*ast.FuncDecl).Body.List
	_, ok := list[len(list)-1].(*ast.ReturnStmt)
	return ok
}

// declared are the names of a file's declarations; a method is Type.Name.
func declared(f *ast.File) (out []string) {
	for _, d := range f.Decls {
		out = append(out, namesOf(d)...)
	}
	return out
}

func namesOf(d ast.Decl) (out []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		typ := d.Recv.List[0].Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		return []string{source(typ) + "." + d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out = append(out, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					out = append(out, id.Name)
				}
			}
		}
	}
	return out
}

// preludeOf is the text of all declarations around a block that are not in own.
func preludeOf(b block, own []string) (string, error) {
	files := prelude[b.file]
	if files == nil && strings.HasSuffix(b.file, ".go") {
		files = prelude[path.Dir(b.file)]
	}
	have := slices.Clone(own)
	var out bytes.Buffer
	for _, name := range append(slices.Clone(files), "internal/proof/docblocks/testdata/common.go") {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		for _, d := range f.Decls {
			names := namesOf(d)
			if len(names) == 0 || slices.Contains(names, "main") || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(have, n) }) {
				continue
			}
			have = append(have, names...)
			if err := format.Node(&out, set, d); err != nil {
				return "", err
			}
			out.WriteString("\n\n")
		}
	}
	return out.String(), nil
}

// importsOf are the imports for the packages that f names: on the line of the
// package clause, so that other lines keep their numbers.
func importsOf(f *ast.File, declared []string) string {
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := s.X.(*ast.Ident); ok && id.Obj == nil && imports[id.Name] != "" && !slices.Contains(declared, id.Name) && ast.IsExported(s.Sel.Name) {
			line := fmt.Sprintf("import %s %q\n", id.Name, imports[id.Name])
			if !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
		return true
	})
	return strings.Join(out, "")
}
