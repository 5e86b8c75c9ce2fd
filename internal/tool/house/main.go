// Command house measures the project: lines of code per wing, exported names, files
// that are too large, and words that the project does not use. A line of code is one that
// is neither blank nor a comment alone; tests are not counted.
//
//	go run ./internal/tool/house [-packages] [-words] [-files]
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

func main() {
	packages := flag.Bool("packages", false, "list the packages of each wing")
	words := flag.Bool("words", false, "list each place of a banned word, not only their number")
	files := flag.Bool("files", false, "list all files, not only the largest")
	flag.Parse()
	h, err := read(".")
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	h.print(os.Stdout, *packages, *words, *files)
}

func (h *house) print(to io.Writer, packages, allWords, allFiles bool) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(name string, s sum) {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t\n", name, s.packages, s.files, s.code, s.names, s.methods)
	}
	_, _ = fmt.Fprintln(w, "wing\tpackages\tfiles\tcode\tnames\tmethods\t")
	var all sum
	for _, wing := range wings {
		var s sum
		for _, p := range h.in(wing.name) {
			s.add(p.sum())
		}
		row(wing.name, s)
		all.add(s)
		if !packages {
			continue
		}
		for _, p := range h.in(wing.name) {
			row("  "+p.dir, p.sum())
		}
	}
	row("all", all)
	_ = w.Flush()

	large, small := h.files(350, 60)
	fmt.Fprintf(&out, "\n%d files of more than 350 lines, %d of less than 60\n", len(large), len(small))
	if allFiles {
		large = h.byLines()
	}
	for _, f := range large {
		fmt.Fprintf(&out, "%6d %s\n", f.lines, f.path)
	}

	found := h.banned()
	perWord := make(map[string]int)
	for _, f := range found {
		perWord[f.word]++
	}
	fmt.Fprintf(&out, "\n%d places with words that the project does not use\n", len(found))
	for _, word := range banned {
		if n := perWord[word]; n > 0 {
			fmt.Fprintf(&out, "%6d %s\n", n, word)
		}
	}
	if allWords {
		for _, f := range found {
			fmt.Fprintf(&out, "%s: %s in %s\n", f.where, f.word, f.text)
		}
	}
	_, _ = io.WriteString(to, out.String())
}

func (p *pkg) code() (n int) {
	for _, f := range p.files {
		n += f.code
	}
	return n
}
