package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// All of the project keeps the discipline that the names promise.
func TestLocked(t *testing.T) {
	root, calls := filepath.Join("..", "..", ".."), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		calls += strings.Count(contents(t, path), "Locked(")
		for _, m := range locking(f) {
			t.Errorf("%s: %s", fset.Position(m.at), m.text)
		}
		return nil
	})
	if err != nil || calls < 100 {
		t.Fatalf("%d calls: %v", calls, err)
	}
}

func TestLockedFires(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"func (a *A) f() { a.gLocked() }", "gLocked without the lock"},
		{"func (a *A) f() { a.mu.Lock(); a.gLocked(); a.mu.Unlock() }", ""},
		{"func (a *A) f() { a.mu.Lock(); defer a.mu.Unlock(); a.gLocked() }", ""},
		{"func (a *A) f() { a.mu.Lock(); a.mu.Unlock(); a.gLocked() }", "gLocked without the lock"},
		{"func (a *A) f() { a.mu.Lock(); if a.x { a.mu.Unlock(); return }; a.gLocked() }", ""},
		{"func (a *A) f() { if a.x { a.mu.Lock(); a.mu.Unlock() }; a.gLocked() }", "gLocked without the lock"},
		{"func (a *A) f() { switch { case a.x: a.mu.Lock(); case a.y: a.gLocked() } }", "gLocked without the lock"},
		{"func (a *A) f() { a.mu.Lock(); go func() { a.gLocked() }() }", "gLocked without the lock"},
		{"func (a *A) f() { a.mu.Lock(); time.AfterFunc(0, func() { a.gLocked() }) }", "gLocked without the lock"},
		{"func (a *A) f() { a.mu.Lock(); time.AfterFunc(0, a.gLocked) }", ""},
		{"func (a *A) f() { a.mu.Lock(); slices.ContainsFunc(a.s, func(int) bool { return a.gLocked() }) }", ""},
		{"func (a *A) f() { a.do(locked(func() { a.gLocked() })) }", ""},
		{"func (a *A) f() { a.mu.Lock(); a.eachLocked(func() { a.gLocked() }) }", ""},
		{"func (a *A) fLocked() { a.gLocked() }", ""},
		{"func (a *A) fLocked() { a.mu.Lock(); a.gLocked() }", "Lock in a function that is called with the lock held"},
		{"func (a *A) fLocked() { a.mu.Unlock(); a.wait(); a.mu.Lock(); a.gLocked() }", ""},
		{"func (a *A) fLocked() { a.mu.Unlock(); a.gLocked() }", "gLocked without the lock"},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+c.body, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range locking(f) {
			got = append(got, m.text)
		}
		if want := slices.DeleteFunc([]string{c.want}, func(s string) bool { return s == "" }); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q, want %q", c.body, got, want)
		}
	}
}
