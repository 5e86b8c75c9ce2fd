package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/words"
)

// processesPage is the data of the list of processes.
type processesPage struct {
	Processes []processRow `json:"processes"` // those in trouble first
	Fleet     fleet.Counts `json:"fleet"`
}

// processRow is a process in a list.
type processRow struct {
	fleet.Process
	Host     string    `json:"host"`
	Trouble  bool      `json:"trouble"`
	Embedded bool      `json:"embedded"` // a part of another program: refuses quiet and stop
	Leader   bool      `json:"leader"`
	Started  time.Time `json:"started_at,omitzero"`
	Href     string    `json:"-"` // its tree
}

// Live reports whether the process takes requests.
func (p processRow) Live() bool { return p.Known != nil }

func (r *request) row(p *fleet.Process) processRow {
	row := processRow{Process: *p, Trouble: p.Troubled(), Href: r.link("/tree/{id}", "tree", p.Identity)}
	row.Host = p.Host()
	if k := p.Known; k != nil {
		row.Embedded, row.Leader = k.Embedded, k.Leader
		row.Started = k.StartedAt.UTC()
	}
	return row
}

// troubledFirst sorts processes, and leaves their order as it is otherwise.
func troubledFirst[T any](rows []T, trouble func(T) bool) {
	order := func(row T) int {
		if trouble(row) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b T) int { return cmp.Compare(order(a), order(b)) })
}

func (r *request) processes(s *snapshot) (*page, error) {
	p := processesPage{Processes: []processRow{}, Fleet: fleet.CountAll(s.Processes)}
	for i := range s.Processes {
		p.Processes = append(p.Processes, r.row(&s.Processes[i]))
	}
	troubledFirst(p.Processes, func(p processRow) bool { return p.Trouble })
	return &page{Template: "processes", Title: "Processes", Data: p, Topic: "processes"}, nil
}

// order is something that processes are told.
type order struct {
	verb string // "quiet"
	tell func(*inspect.Process, context.Context) error
	one  string // said of one process
	many string // and of several

	detail string // what people are to know before
}

var (
	quiet = order{"quiet", (*inspect.Process).Quiet, "takes no new jobs", "take no new jobs",
		"What runs goes on, and nothing new is taken: there is no way back but a restart."}
	stop = order{"stop", (*inspect.Process).Stop, "stops", "stop",
		"Running jobs get the time of the process's timeout, " + words.Seconds(limits.Timeout) + " by default. What still runs then is put back, and the process ends. Nothing here starts it again."}
	dump = order{"dump", (*inspect.Process).DumpThreads, "writes what its goroutines do to its log", "write what their goroutines or threads do to their logs", ""}
)

// told are the live processes that the address means: the one of {id}, those of a group of the tree, or all.
func (r *request) told() ([]fleet.Process, error) {
	all, err := r.fleet.Processes(r.Context())
	if err != nil {
		return nil, err
	}
	id, by := r.name("id"), r.query("by")
	if by != "" && fleet.Groups[by] == nil {
		return nil, wrong("Use tag, version or host.", "There is no grouping by %q.", by)
	}
	all = slices.DeleteFunc(all, func(p fleet.Process) bool {
		return p.Known == nil || id != "" && p.Identity != id || by != "" && fleet.Groups[by](&p) != r.query("name")
	})
	if len(all) == 0 && id != "" {
		return nil, notFound("There is no live process %q.", id)
	}
	if len(all) == 0 && by != "" {
		return nil, notFound("There is no live process of the %s %q.", by, r.query("name"))
	}
	return all, nil
}

// orderedTo is the action that tells processes something.
func orderedTo(o order) func(*request) (*confirm, error) {
	return func(r *request) (*confirm, error) {
		processes, err := r.told()
		if err != nil {
			return nil, err
		}
		busy, who, action := 0, "all "+words.Plural(len(processes), "process"), r.url("processes", o.verb)
		for i := range processes {
			busy += processes[i].Busy
		}
		if id := r.name("id"); id != "" {
			who, action = id, r.url("processes", id, o.verb)
		}
		back := r.url("processes")
		if by := r.query("by"); by != "" {
			who = words.Plural(len(processes), "process") + " of the " + by + " " + cmp.Or(r.query("name"), "none")
			action += "?" + url.Values{"by": {by}, "name": {r.query("name")}}.Encode()
			back = r.url("tree") + "?by=" + by
		}
		verb := strings.ToUpper(o.verb[:1]) + o.verb[1:] + " " + who
		c := &confirm{
			Question: verb + "?", Detail: words.Plural(busy, "job") + " run there. " + o.detail, Button: verb, Action: action, Back: back,
			do: func() (*page, error) { return r.order(o, processes) },
		}
		if o.detail != "" { // else it changes nothing
			c.Count = int64(len(processes))
		}
		return c, nil
	}
}

// order tells processes something, and people which have refused.
func (r *request) order(o order, processes []fleet.Process) (*page, error) {
	told, refused, err := r.fleet.Tell(r.Context(), processes, o.tell)
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 && r.name("id") != "" {
		return nil, refused[0]
	}
	var not, ruby []string
	for _, p := range processes {
		switch {
		case !slices.Contains(told, p.Identity):
			not = append(not, p.Identity)
		case p.Pulse == nil:
			ruby = append(ruby, p.Identity)
		}
	}
	back, counts := r.url("processes"), map[string]int{"done": len(told), "refused": len(refused)}
	if r.form("back") == "tree" {
		back = r.url("tree", r.name("id"))
	}
	var text string
	switch {
	case len(told) == 1:
		text = told[0] + " " + o.one + "."
	case len(told) > 1:
		text = words.Plural(len(told), "process") + " " + o.many + "."
	}
	if len(ruby) > 0 {
		text += " Processes of Ruby hear of it at their next beat, within 10 s."
	}
	if len(refused) > 0 {
		text += fmt.Sprintf(" Not so %s: parts of other programs, which have to do it themselves.", strings.Join(not, ", "))
	}
	if len(told) == 0 {
		return r.undone(back, counts, "Nothing was done: no process can be told that.%s", text)
	}
	return r.done(back, counts, "%s", text)
}
