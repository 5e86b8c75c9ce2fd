package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exceptions are where a banned word may stand: in the files under a folder, or as the whole of
// a name anywhere.
var exceptions = []struct{ under, name, why string }{
	{under: "internal/tool/house/", why: "the list itself, and its test"},
	{name: "max_deaf", why: "the key of that field in a configuration file"},
	{name: "deaf", why: "the same in JSON, and the name of a case"},
	{name: "deaf,", why: "the same"},
	{name: "SetLinger", why: "the standard library's"},
}

// TestWords finds no banned word as a part of a name: of an identifier, a struct tag, a key in
// Redis, a metric, a field of the log, a name in a script. Tests and other modules count, too.
func TestWords(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	found, files := 0, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		all, err := wordsIn(path, filepath.ToSlash(name))
		files += len(all.read)
		for _, f := range all.found {
			if !excepted(f) {
				found++
				t.Errorf("%s: %s in %s", f.where, f.word, f.text)
			}
		}
		return err
	})
	if err != nil || files < 500 {
		t.Fatalf("read %d files: %v", files, err)
	}
}

type wordsRead struct {
	read  []string
	found []finding
}

func wordsIn(path, name string) (out wordsRead, err error) {
	for _, word := range bannedIn(filepath.Base(name)) {
		out.found = append(out.found, finding{word, name, "the name of the file"})
	}
	switch filepath.Ext(name) {
	case ".go":
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return out, err
		}
		out.read, out.found = []string{name}, append(out.found, wordsOf(set, tree, name)...)
	case ".lua":
		src, err := os.ReadFile(path)
		if err != nil {
			return out, err
		}
		out.read = []string{name}
		for line := range strings.Lines(string(src)) {
			code, _, _ := strings.Cut(line, "--")
			for _, word := range bannedIn(code) {
				out.found = append(out.found, finding{word, name, strings.TrimSpace(code)})
			}
		}
	}
	return out, nil
}

func excepted(f finding) bool {
	for _, e := range exceptions {
		if e.under != "" && strings.HasPrefix(f.where, e.under) || e.name != "" && f.text == e.name {
			return true
		}
	}
	return false
}

func TestParts(t *testing.T) {
	for name, want := range map[string][]string{
		"dashboard":        {"dashboard"},
		"troupe:bell":      {"troupe", "bell"},
		"newJSONBoard":     {"new", "json", "board"},
		"job_fates_total2": {"job", "fates", "total"},
		"namespaceOfJudge": {"namespace", "of", "judge"},
	} {
		if got := parts(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]int{"keyboardLabel": 0, "spaces": 0, "buriedJobs": 1, "judged": 1, "TwinsPacing": 2, "override": 0} {
		if got := bannedIn(name); len(got) != want {
			t.Errorf("%s: %q, want %d words", name, got, want)
		}
	}
}
