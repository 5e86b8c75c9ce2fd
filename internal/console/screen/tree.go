package screen

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/tree"
)

// TreePicture draws a tree: whole if it fits, or with a filter; else processors that have nothing to
// tell are summed up.
func (q *Query) TreePicture(head Row, t tree.Tree) *Picture {
	if q.Filter == "" {
		t = Fit(t, q.Rows-1)
	}
	rows := []Row{head}
	i := 0
	for text := range strings.Lines(t.String()) {
		n := t[i]
		st := Plain
		switch {
		case fleet.Troubled(n):
			st = Yellow
		case n.State == tree.StateBusy:
			st = Cyan
		case n.Role == "processor":
			st = Dim
		}
		for narrow := q.Width < 60; narrow && strings.Contains(text, "    "); {
			text = strings.ReplaceAll(text, "    ", " ")
		}
		r := Row{ID: n.Path}
		if n.Job != nil {
			r.Enter = explanation(n.Job.JID)
		} else if len(n.Unresponsive) > 0 {
			r.Enter = explanation(n.Unresponsive[0].JID)
		}
		if r.Add(st, strings.TrimSuffix(text, "\n")); q.matches(r) {
			rows = append(rows, r)
		}
		i++
	}
	return &Picture{Rows: rows}
}

// longRun is when a busy processor is worth a row of its own.
const longRun = time.Second

// Fit is a whole tree if it has at most limit rows. Else processors that have nothing to tell are
// summed up, one row a capsule, instead of the first.
func Fit(t tree.Tree, limit int) (out tree.Tree) {
	states := map[int]map[tree.State]int{} // of the sums, by their index
	at := map[string]int{}                 // of the sum of a capsule
	for _, n := range t {
		if len(t) <= limit || n.Role != "processor" || fleet.Troubled(n) || n.Job != nil && !n.Job.Started.IsZero() && time.Since(n.Job.Started) >= longRun {
			out = append(out, n)
			continue
		}
		i, ok := at[n.Capsule]
		if !ok {
			i, at[n.Capsule], states[len(out)] = len(out), len(out), map[tree.State]int{}
			out = append(out, tree.Node{Path: n.Path})
		}
		states[i][n.State]++
	}
	for i, of := range states {
		all, words := 0, []string{}
		for _, state := range slices.Sorted(maps.Keys(of)) {
			all += of[state]
			words = append(words, fmt.Sprintf("%d %s", of[state], state))
		}
		out[i].Path = fmt.Sprintf("%s/%d more:", path.Dir(out[i].Path), all)
		out[i].State = tree.State(strings.Join(words, ", "))
	}
	return out
}
