package screen

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// pages are the names of all pages.
var pages = []string{"overview", "processes", "tree", "queues", "running", "retry", "scheduled", "dead", "queue", "events", "explain", "help"}

const help = `Enter goes in, Esc back; j k g G, the arrows and page keys move
: and the first letters of a page go there; / filters; . pauses
R retries, K kills, D deletes a job; C cancels a running one
P pauses or unpauses a queue; Q quiets, S stops a process
Each asks first: y does it, any other key does not
Ctrl-L draws all again; q and Ctrl-C end
:overview: what is wrong now, totals, rates
:processes, :tree ID: the processes, the actors of one
:queues, :queue NAME: the queues, the jobs of one, the newest first
:running, :retry, :scheduled, :dead: jobs
:events: what went wrong lately
:explain JID: where a job is, why, and what happens next`

// Page is a page of the screen: its name, and the queue, process or job that it is of.
type Page struct{ Name, Arg string }

// String is what is typed to go there.
func (p Page) String() string { return strings.TrimRight(":"+p.Name+" "+p.Arg, " ") }

// ParsePage reads a page as it is typed, with or without the colon. The first letters of a name
// are enough.
func ParsePage(text string) (Page, error) {
	name, arg, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(text, ":")), " ")
	i := slices.IndexFunc(pages, func(page string) bool { return name != "" && strings.HasPrefix(page, name) })
	switch {
	case i < 0:
		return Page{}, fmt.Errorf("page %q, expected one of %s", name, strings.Join(pages, ", "))
	case name == "queue" && arg != "":
		return Page{name, strings.TrimSpace(arg)}, nil
	case pages[i] == "explain" && arg == "":
		return Page{}, fmt.Errorf("page explain without a jid, expected explain JID")
	}
	return Page{pages[i], strings.TrimSpace(arg)}, nil
}

// Source is what a screen shows. Look is called by one goroutine at a time and ends with its
// context.
type Source interface {
	Look(ctx context.Context, q Query) (*Picture, error)
}

// Query says what to show.
type Query struct {
	Page        Page
	Filter      string // rows of tables have this text in them, in any case of letters
	From        int    // the first row that is seen
	Rows, Width int    // of the room for rows
}

// Picture is what a page shows.
type Picture struct {
	Head   Line // stays above the rows
	Rows   []Row
	Note   string // what there is to say about all of it
	Offset int    // the number of the first row, from 0
	Total  int    // all rows, those that are not here too; 0 for those that are
}

// Row is a line with the acts on the thing that it shows.
type Row struct {
	Line
	ID    string // by which the row is known in the next picture
	Enter Page   // where Enter goes
	Acts  []Act
}

// Act is something that can be done.
type Act struct {
	Key  string
	What string                                    // like "retry Pay r1 of the set dead"
	Do   func(ctx context.Context) (string, error) // returns what came of it
}

// cells is a row of a table.
func cells(id string, enter Page, texts ...string) Row {
	r := Row{ID: id, Enter: enter}
	for _, text := range texts {
		r.Add(Plain, text)
	}
	return r
}

// text is rows of a text.
func (q *Query) text(st Style, format string, args ...any) (rows []Row) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		for _, l := range wrap(st, strings.TrimSuffix(line, "\n"), q.Width) {
			rows = append(rows, Row{Line: l})
		}
	}
	return rows
}

// matches reports whether a row has the filter's text in it.
func (q *Query) matches(r Row) bool {
	return strings.Contains(strings.ToLower(r.String()), strings.ToLower(q.Filter))
}

const (
	gap   = 2  // between two columns
	least = 8  // as far as a column shrinks
	named = 24 // as far as the first one does, which says what the row is
)

// table is the rows that match as columns, below a row of names. Where they do not fit those on the
// right are left out, and the widest shrink.
func (q *Query) table(names string, rows []Row) []Row {
	head := Row{}
	for name := range strings.FieldsSeq(names) {
		head.Add(Dim, name)
	}
	rows = append([]Row{head}, slices.DeleteFunc(rows, func(r Row) bool { return !q.matches(r) })...)
	var wide, most []int // of each column, and how much of it may go
	all, spare := -gap-q.Width, 0
	for i := range head.Line {
		w := 0
		for _, r := range rows {
			w = max(w, displaywidth.String(r.Line[i].Text))
		}
		shrinks := max(0, w-least)
		if i == 0 {
			shrinks = max(0, w-named)
		}
		if all+w+gap > spare+shrinks && i > 0 {
			break
		}
		wide, most, all, spare = append(wide, w), append(most, shrinks), all+w+gap, spare+shrinks
	}
	for ; all > 0; all-- {
		i := 0
		for j := range wide {
			if most[j] > 0 && (most[i] <= 0 || wide[j] > wide[i]) {
				i = j
			}
		}
		wide[i], most[i] = wide[i]-1, most[i]-1
	}
	for i, r := range rows {
		rows[i].Line = nil
		over := 0 // what the cell before leaves
		for j, w := range wide {
			if j > 0 {
				rows[i].Line = append(rows[i].Line, Span{strings.Repeat(" ", over), Plain})
			}
			cell := Line{r.Line[j]}.Cut(w)
			rows[i].Line, over = append(rows[i].Line, cell...), w+gap-displaywidth.String(cell.String())
		}
	}
	return rows
}

// tablePicture is a picture of one table.
func (q *Query) tablePicture(names string, rows []Row) *Picture {
	rows = q.table(names, rows)
	return &Picture{Head: rows[0].Line, Rows: rows[1:]}
}
