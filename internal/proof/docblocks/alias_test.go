package docblocks

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

const ownModule = "github.com/troupehq/troupe"

// The type behind an alias of an internal one is not shown by go doc: the comment of the alias has its
// fields and methods, named and typed as in the source; the remarks beside them may have words of their own.
func TestAliasesShowWhatIsBehindThem(t *testing.T) {
	t.Parallel()
	found := 0
	for _, dir := range folders(t) {
		for _, s := range sources(t, dir) {
			for _, d := range s.file.Decls {
				gen, ok := d.(*ast.GenDecl)
				if !ok || gen.Tok != token.TYPE {
					continue
				}
				for _, spec := range gen.Specs {
					spec := spec.(*ast.TypeSpec)
					target, name := s.behind(spec)
					if !spec.Name.IsExported() || !strings.Contains(target, "/internal/") {
						continue
					}
					found++
					doc := spec.Doc
					if doc == nil {
						doc = gen.Doc
					}
					want := shape(t, target, name)
					if !strings.Contains(bare(indented(doc.Text())), bare(want)) {
						t.Errorf("the comment of %s.%s lacks, or has otherwise, what is behind it:\n%s", dir, spec.Name.Name, want)
					}
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("%d aliases of internal types", found)
	}
}

// indented are the lines of a comment that are shown as they are.
func indented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "\t"); ok {
			out.WriteString(rest)
		}
	}
	return out.String()
}

// bare are lines of Go without remarks, and with one space between words.
func bare(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "//")
		if words := strings.Fields(code); len(words) > 0 {
			out.WriteString(strings.Join(words, " ") + "\n")
		}
	}
	return out.String()
}

// sourceFile is a file of a package.
type sourceFile struct {
	file *ast.File
	text []byte
	set  *token.FileSet
}

func sources(t *testing.T, dir string) (out []sourceFile) {
	t.Helper()
	for _, name := range harness.Must(filepath.Glob(filepath.Join(root, dir, "*.go")))(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		s := sourceFile{set: token.NewFileSet(), text: harness.Must(os.ReadFile(name))(t)}
		s.file = harness.Must(parser.ParseFile(s.set, name, s.text, parser.ParseComments))(t)
		out = append(out, s)
	}
	return out
}

// behind is the package of this module, and the name in it, that an alias is for.
func (s *sourceFile) behind(spec *ast.TypeSpec) (pkg, name string) {
	sel, ok := spec.Type.(*ast.SelectorExpr)
	if !ok || !spec.Assign.IsValid() {
		return "", ""
	}
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		if rest, own := strings.CutPrefix(p, ownModule); own && path.Base(p) == source(sel.X) {
			return rest, sel.Sel.Name
		}
	}
	return "", ""
}

func (s *sourceFile) of(n ast.Node) string {
	return string(s.text[s.set.Position(n.Pos()).Offset:s.set.Position(n.End()).Offset])
}

var (
	tags      = regexp.MustCompile("[ \t]*`[^`]*`")
	qualifier = regexp.MustCompile(`\b(tree|runs|job|show|rescue|limits)\.`)
)

// shape is a type as its source has it: the fields, or what it is made of, and the methods that are exported.
func shape(t *testing.T, dir, name string) string {
	t.Helper()
	var fields, methods bytes.Buffer
	for _, s := range sources(t, dir) {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && d.Name.IsExported() && source(star(d.Recv.List[0].Type)) == name {
					methods.WriteString(d.Name.Name + strings.TrimPrefix(s.of(d.Type)[strings.Index(s.of(d.Type), d.Name.Name):], d.Name.Name) + "\n")
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					spec, ok := spec.(*ast.TypeSpec)
					if !ok || spec.Name.Name != name {
						continue
					}
					if next, other := s.behind(spec); next != "" {
						return shape(t, next, other)
					}
					fields.WriteString(s.of(spec.Type))
				}
			}
		}
	}
	text := tags.ReplaceAllString(fields.String(), "")
	if body, ok := strings.CutPrefix(text, "struct {"); ok {
		head := "package p\n\ntype T struct {"
		all := string(harness.Must(format.Source([]byte(head + body + "\n")))(t))
		text = strings.TrimSuffix(strings.TrimPrefix(all, head+"\n"), "}\n")
		text = strings.ReplaceAll("\n"+text, "\n\t", "\n")[1:]
	} else if token.IsIdentifier(text) { // string, int
		text = ""
	} else {
		text += "\n"
	}
	return qualifier.ReplaceAllString(strings.ReplaceAll(text, "\n\n", "\n")+methods.String(), "")
}

func star(e ast.Expr) ast.Expr {
	if s, ok := e.(*ast.StarExpr); ok {
		return s.X
	}
	return e
}
