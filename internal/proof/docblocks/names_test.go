package docblocks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// library has what can be named of this module: packages with their exported
// names, types with their fields and methods, and the tests of the repository.
type library struct {
	packages map[string]map[string]bool // actors → Config, Run, …
	members  map[string]map[string]bool // Config → Redis, Validate, …; of all types of that name
	tests    map[string]bool
}

func (l *library) add(pkg, name string) {
	if l.packages[pkg] == nil {
		l.packages[pkg] = map[string]bool{}
	}
	l.packages[pkg][name] = true
}

func (l *library) member(typ, name string) {
	if l.members[typ] == nil {
		l.members[typ] = map[string]bool{}
	}
	l.members[typ][name] = true
}

func read(t *testing.T) *library {
	t.Helper()
	l := &library{map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}}
	for _, dir := range folders(t) {
		if strings.HasPrefix(dir, "examples") {
			continue
		}
		files := harness.Must(filepath.Glob(filepath.Join(root, dir, "*.go")))(t)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f := harness.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
			l.file(f)
		}
	}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllSubmatch(text, -1) {
			l.tests[string(m[1])] = true
		}
		return err
	})
	harness.OK(t, err)
	return l
}

func (l *library) file(f *ast.File) {
	for _, d := range f.Decls {
		for _, name := range namesOf(d) {
			if typ, method, ok := strings.Cut(name, "."); ok {
				l.member(typ, method)
			} else if ast.IsExported(name) {
				l.add(f.Name.Name, name)
			}
		}
		gen, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range gen.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			var fields *ast.FieldList
			switch typ := spec.Type.(type) {
			case *ast.StructType:
				fields = typ.Fields
			case *ast.InterfaceType:
				fields = typ.Methods
			default:
				continue
			}
			for _, field := range fields.List {
				for _, id := range field.Names {
					l.member(spec.Name.Name, id.Name)
				}
			}
		}
	}
}

var (
	qualified = regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	ofType    = regexp.MustCompile(`(?:^|[^.\w])([A-Z]\w*)\.([A-Z]\w*)`)
	aTest     = regexp.MustCompile(`\bTest[A-Z]\w+`)
)

// check tells what text names of this module that does not exist.
func (l *library) check(text string) (missing []string) {
	for _, m := range qualified.FindAllStringSubmatch(text, -1) {
		names, ok := l.packages[m[1]]
		switch {
		case !ok || strings.HasPrefix(m[2], "Test"): // another module's, or a test, see below
		case !names[m[2]]:
			missing = append(missing, m[0])
		case m[3] != "" && l.members[m[2]] != nil && !l.members[m[2]][m[3]]:
			missing = append(missing, m[0])
		}
	}
	for _, m := range ofType.FindAllStringSubmatch(text, -1) {
		if names, ok := l.members[m[1]]; ok && !names[m[2]] {
			missing = append(missing, m[1]+"."+m[2])
		}
	}
	return missing
}

// Names in backticks, and files that are named, exist.
func TestNamesOfThePagesExist(t *testing.T) {
	t.Parallel()
	l := read(t)
	code := regexp.MustCompile("`[^`\n]+`")
	file := regexp.MustCompile(`^[\w./-]+/[\w.-]+\.(go|md|lua|rb|yml)$`)
	fenced := regexp.MustCompile("(?ms)^```.*?^```")
	n := 0
	for _, page := range pages(t) {
		text := harness.Must(os.ReadFile(filepath.Join(root, page)))(t)
		for _, span := range code.FindAllString(string(fenced.ReplaceAll(text, nil)), -1) {
			n++
			span = strings.Trim(span, "`")
			for _, name := range aTest.FindAllString(span, -1) {
				if !l.tests[name] {
					t.Errorf("%s: `%s`: there is no test %s", page, span, name)
				}
			}
			for _, name := range l.check(span) {
				t.Errorf("%s: `%s`: there is no %s", page, span, name)
			}
			if file.MatchString(span) && !strings.HasPrefix(span, "config/") && !strings.HasPrefix(span, "/") {
				_, here := os.Stat(filepath.Join(root, span))
				_, beside := os.Stat(filepath.Join(root, path.Dir(page), span))
				if here != nil && beside != nil {
					t.Errorf("%s: there is no file %s", page, span)
				}
			}
		}
	}
	if n < 500 {
		t.Errorf("%d names in backticks", n)
	}
}

// So do those of the comments.
func TestNamesOfTheCommentsExist(t *testing.T) {
	t.Parallel()
	l := read(t)
	for _, dir := range folders(t) {
		files := harness.Must(filepath.Glob(filepath.Join(root, dir, "*.go")))(t)
		for _, name := range files {
			set := token.NewFileSet()
			f := harness.Must(parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
			for _, group := range f.Comments {
				for _, missing := range l.check(group.Text()) {
					t.Errorf("%s: there is no %s", set.Position(group.Pos()), missing)
				}
			}
		}
	}
}

// Links to files of the repository, and to headings in them, lead somewhere.
func TestLinksOfThePagesLead(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([\w./-]*)(?:#([\w-]+))?\)`)
	fenced := regexp.MustCompile("(?ms)^```.*?^```")
	code := regexp.MustCompile("`[^`\n]*`")
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor := regexp.MustCompile(`[^\w -]`)
	for _, page := range pages(t) {
		text := harness.Must(os.ReadFile(filepath.Join(root, page)))(t)
		for _, m := range link.FindAllStringSubmatch(string(code.ReplaceAll(fenced.ReplaceAll(text, nil), nil)), -1) {
			target := page
			if m[1] != "" {
				target = path.Join(path.Dir(page), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: no file for the link %s", page, m[0])
				continue
			}
			if m[2] == "" {
				continue
			}
			text := harness.Must(os.ReadFile(filepath.Join(root, target)))(t)
			found := false
			for _, h := range heading.FindAllSubmatch(text, -1) {
				found = found || strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(string(h[1])), ""), " ", "-") == m[2]
			}
			if !found {
				t.Errorf("%s: no heading for the link %s", page, m[0])
			}
		}
	}
}
