package draw

import (
	"cmp"
	"fmt"
	"html/template"
	"strings"

	"github.com/troupehq/troupe/internal/words"
)

// Part is some things of the same state.
type Part struct {
	State string // a word, and the class of the drawing
	N     int
}

// Words are like "97 busy, 2 idle"; none is what is said of nothing.
func Words(parts []Part, none string) string {
	var all []string
	for _, p := range parts {
		all = append(all, words.Count(p.N)+" "+p.State)
	}
	return cmp.Or(strings.Join(all, ", "), none)
}

// Bar draws parts as a bar of so many parts of its width.
func Bar(parts []Part) template.HTML {
	const wide = 120
	total := 0
	for _, p := range parts {
		total += p.N
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bar" viewBox="0 0 %d 10" preserveAspectRatio="none" aria-hidden="true" focusable="false"><rect class="none" width="%d" height="10"/>`, wide, wide)
	x := 0.0
	for _, p := range parts {
		w := max(float64(p.N)*wide/float64(total), 1.5)
		fmt.Fprintf(&b, `<rect class="%s" x="%.1f" width="%.1f" height="10"/>`, p.State, x, min(w, wide-x))
		x += w
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // numbers and words of ours
}

// Strip draws the states of processors as squares of some shapes, and returns how many are what.
func Strip(states []string) (parts []Part, drawing template.HTML) {
	const columns, cell, side = 25, 12, 10
	shapes := []struct {
		word, shape string
		paths       strings.Builder
		n           int
	}{
		{word: "busy", shape: "M%d %dh10v10h-10z"}, {word: "idle", shape: "M%d %dm1.5 1.5h7v7h-7z"},
		{word: "restarting", shape: "M%d %dh10l-5 10z"}, {word: "crashed", shape: "M%d %dl10 10m0 -10l-10 10"},
		{word: "starting", shape: "M%d %dm5 0l5 10h-10z"}, {word: "held", shape: "M%d %dm1 0v10h3v-10zm5 0v10h3v-10z"}, {word: "suspended", shape: "M%d %dm5 0l5 5l-5 5l-5 -5z"},
		{word: "stopping", shape: "M%d %dm1.5 4h7v3h-7z"}, {word: "stopped", shape: "M%d %dm1.5 4h7v3h-7z"},
	}
	for i, word := range states {
		for k := range shapes {
			if s := &shapes[k]; s.word == word {
				s.n++
				fmt.Fprintf(&s.paths, s.shape, i%columns*cell, i/columns*cell)
			}
		}
	}
	wide := min(len(states), columns)*cell - cell + side
	high := (len(states)-1)/columns*cell + side
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" viewBox="0 0 %d %d" width="%d" height="%d" aria-hidden="true" focusable="false">`, wide, high, wide, high)
	for i := range shapes {
		if s := &shapes[i]; s.n > 0 {
			parts = append(parts, Part{s.word, s.n})
			fmt.Fprintf(&b, `<path class="%s" d="%s"/>`, s.word, s.paths.String())
		}
	}
	b.WriteString("</svg>")
	return parts, template.HTML(b.String()) //nolint:gosec // numbers and words of ours
}
