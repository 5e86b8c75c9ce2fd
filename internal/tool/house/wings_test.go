package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestWings(t *testing.T) {
	for dir, want := range map[string]string{
		".": "public", "actors": "engine", "actors/internal/work": "engine", "actors/internal/show": "show", "fetch": "engine",
		"fetch/fetchtest": "public", "internal/rescue": "engine", "internal/keys": "rest", "internal/console/cli": "console",
		"internal/test/harness": "test", "wire/laravel": "wires", "web/internal/draw": "web", "fetcher": "",
	} {
		if got := wing(dir); got != want {
			t.Errorf("%s is in the wing %q, want %q", dir, got, want)
		}
	}
}

// Each package is in a wing, the wings together are all of the project, and what users can import is
// counted wherever it is.
func TestEveryPackageIsCounted(t *testing.T) {
	h, err := read(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var sums, all sum
	for _, w := range wings {
		for _, p := range h.in(w.name) {
			sums.add(p.sum())
		}
	}
	public := map[string]bool{}
	for _, p := range h.packages {
		all.add(p.sum())
		public[p.dir] = p.public()
		if wing(p.dir) == "" {
			t.Errorf("no wing has %s", p.dir)
		}
	}
	if sums != all || all.code < 10_000 {
		t.Errorf("the wings are %+v, the packages %+v", sums, all)
	}
	for dir, want := range map[string]bool{".": true, "wire/goworkers": true, "wire/laravel": true, "fetch/fetchtest": true, "web": true, "web/internal/draw": false, "cmd/troupe": false, "examples/hello": false} {
		if public[dir] != want {
			t.Errorf("users can import %s: %v, want %v", dir, public[dir], want)
		}
	}
	var out strings.Builder
	h.print(&out, true, false, false)
	for _, want := range []string{"engine", "\n  actors/internal/work", "\nall"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
