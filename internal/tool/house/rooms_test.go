package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestRooms counts the packages below internal/ and finds those that are too small to be one.
func TestRooms(t *testing.T) {
	h, err := read(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range h.packages {
		if !strings.HasPrefix(p.dir, "internal/") {
			continue
		}
		n++
		if code := p.code(); code > 1 && code < 40 && !strings.Contains(p.doc, "a package of its own since") { // one of tests alone has one line
			t.Errorf("%s has %d lines of code, expected at least 40, or a doc comment that says why it is a package of its own", p.dir, code)
		}
	}
	if n > 50 || n < 20 {
		t.Errorf("%d packages below internal/, expected at most 50", n)
	}
}
