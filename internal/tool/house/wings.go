package main

import "strings"

// wings are the parts of the project, each with the folders that are in it. A package is in the
// wing that names the longest path to it.
var wings = []struct {
	name    string
	folders []string
}{
	{"public", []string{".", "client", "event", "handler", "inspect", "ops", "outbox", "sched", "testkit", "trace", "fetch/fetchtest"}},
	{"engine", []string{"actors", "supervisor", "fetch", "internal/rescue"}},
	{"show", []string{"actors/internal/show"}},
	{"wires", []string{"wire", "retry"}},
	{"console", []string{"cmd", "internal/console"}},
	{"web", []string{"web"}},
	{"rest", []string{"internal", "examples"}},
	{"test", []string{"internal/test"}},
	{"proof", []string{"internal/proof"}},
	{"tool", []string{"internal/tool"}},
}

// wing is the name of the wing of the package in dir; "" if no wing has it.
func wing(dir string) (name string) {
	longest := 0
	for _, w := range wings {
		for _, f := range w.folders {
			if (dir == f || strings.HasPrefix(dir, f+"/")) && len(f) > longest {
				name, longest = w.name, len(f)
			}
		}
	}
	return name
}

// in are the packages of a wing.
func (h *house) in(name string) (all []*pkg) {
	for _, p := range h.packages {
		if wing(p.dir) == name {
			all = append(all, p)
		}
	}
	return all
}

// public tells whether users can import p.
func (p *pkg) public() bool {
	return p.name != "main" && !strings.Contains("/"+p.dir+"/", "/internal/") && !strings.HasPrefix(p.dir, "examples/")
}

// sum is the size of a package or a wing; names and methods are those that users can import.
type sum struct{ packages, files, code, names, methods int }

func (s *sum) add(o sum) {
	s.packages += o.packages
	s.files += o.files
	s.code += o.code
	s.names += o.names
	s.methods += o.methods
}

func (p *pkg) sum() sum {
	s := sum{packages: 1, files: len(p.files), code: p.code()}
	if p.public() {
		s.names, s.methods = p.names, p.methods
	}
	return s
}
