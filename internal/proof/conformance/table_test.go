package conformance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// docs/conformance.md has a row for each check, and its tests are those that exist.
func TestTheTableHasEveryCheckAndItsTests(t *testing.T) {
	text := harness.Must(os.ReadFile(filepath.Join("..", "..", "..", "docs", "conformance.md")))(t)
	row, name := regexp.MustCompile(`^\| (\d+) \|`), regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	next, claimed := 1, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(m[1])
		if n != next {
			t.Errorf("row %d follows row %d", n, next-1)
		}
		next = n + 1
		tests := name.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 && !strings.Contains(line, "**does not hold yet**") {
			t.Errorf("check %d has no test and does not say that it does not hold", n)
		}
		for _, test := range tests {
			claimed[test[1]] = true
			if !strings.HasPrefix(test[1], "TestCheck"+strconv.Itoa(100 + n)[1:]) {
				t.Errorf("check %d names the test %s", n, test[1])
			}
		}
	}
	if next != 46 {
		t.Errorf("the last row is %d, want 45", next-1)
	}
	for _, test := range checks(t) {
		if !claimed[test] {
			t.Errorf("%s is in no row", test)
		}
		delete(claimed, test)
	}
	for test := range claimed {
		t.Errorf("there is no %s", test)
	}
}

// checks are the names of the tests of this package that are checks.
func checks(t *testing.T) (names []string) {
	t.Helper()
	files := harness.Must(filepath.Glob("*_test.go"))(t)
	for _, file := range files {
		f := harness.Must(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "TestCheck") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}
