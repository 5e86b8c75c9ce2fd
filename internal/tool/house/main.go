// Command house measures the project: lines of code per package, exported names, files
// that are too large, and words that the project does not use. A line of code is one that
// is neither blank nor a comment alone; tests are not counted.
//
//	go run ./internal/tool/house [-words] [-files]
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	words := flag.Bool("words", false, "list each place of a banned word, not only their number")
	files := flag.Bool("files", false, "list all files of the engine, not only the largest")
	flag.Parse()
	h, err := read(".")
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	h.print(os.Stdout, *words, *files)
}

// engine are the rooms whose lines are counted together.
var engine = []string{"actors", "supervisor", "fetch", "sched", "retry", "internal/rescue"}

// public are the packages that users import.
var public = []string{".", "actors", "client", "event", "fetch", "handler", "inspect", "ops", "retry", "sched", "supervisor", "testkit", "testkit/chaos", "testkit/script", "trace", "web"}

func (h *house) print(to io.Writer, allWords, allFiles bool) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "package\tfiles\tcode\tnames\tmethods\t")
	total := 0
	for _, p := range h.packages {
		names, methods := "", ""
		if p.public() {
			names, methods = fmt.Sprint(p.names), fmt.Sprint(p.methods)
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t\n", p.dir, len(p.files), p.code(), names, methods)
		total += p.code()
	}
	names, methods := h.exported()
	_, _ = fmt.Fprintf(w, "all\t\t%d\t%d\t%d\t\n", total, names, methods)
	_, _ = fmt.Fprintf(w, "engine\t\t%d\t\t\t\n", h.engine())
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

func (p *pkg) public() bool { return slices.Contains(public, p.dir) }

func (p *pkg) code() (n int) {
	for _, f := range p.files {
		n += f.code
	}
	return n
}

// exported counts the exported names and methods of what users import.
func (h *house) exported() (names, methods int) {
	for _, p := range h.packages {
		if p.public() {
			names, methods = names+p.names, methods+p.methods
		}
	}
	return names, methods
}

func (h *house) engine() (n int) {
	for _, p := range h.packages {
		room, _, _ := strings.Cut(p.dir, "/")
		if (slices.Contains(engine, room) || slices.Contains(engine, p.dir)) && !strings.HasSuffix(p.dir, "fetchtest") && !strings.HasSuffix(p.dir, "claimmodel") {
			n += p.code()
		}
	}
	return n
}
