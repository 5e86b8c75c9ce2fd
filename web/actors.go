package web

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/console/doctor"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/web/internal/draw"
)

// treePage is the data of the tree of one process.
type treePage struct {
	Process      treeRow    `json:"process"`
	Known        bool       `json:"known"`  // it has a tree
	Notes        []problem  `json:"notes"`  // what happened to it, in sentences
	Actors       []actorRow `json:"actors"` // parents before children
	Unresponsive []unended  `json:"unresponsive"`
	Hidden       int        `json:"-"` // rows that were too many
}

// actorRow is an actor.
type actorRow struct {
	tree.Node
	fleet.Lately
	Name   string        `json:"name"`
	Level  int           `json:"level"`           // of indentation, from 1
	Words  string        `json:"words,omitempty"` // of a manager: its processors
	Folded bool          `json:"folded"`          // a processor as it should be: its manager's strip shows it
	Strip  template.HTML `json:"-"`
}

// First is the first line of the last failure; Rest is what follows.
func (a actorRow) First() string { first, _, _ := strings.Cut(a.LastFailure, "\n"); return first }

// Rest is what follows the first line of the last failure: its stack.
func (a actorRow) Rest() string { _, rest, _ := strings.Cut(a.LastFailure, "\n"); return rest }

// Running are the processors at work, the longest first.
func (p treePage) Running() (rows []actorRow) {
	for _, a := range p.Actors {
		if a.Folded && a.Job != nil {
			rows = append(rows, a)
		}
	}
	slices.SortStableFunc(rows, func(a, b actorRow) int { return a.Job.Started.Compare(b.Job.Started) })
	return rows[:min(len(rows), rowsOfJobs)]
}

// unended is a job that does not end, with its capsule.
type unended struct {
	tree.Unresponsive
	Capsule string `json:"capsule"`
}

// seenTree is what is known of one process.
type seenTree struct {
	tree    tree.Tree       // nil if it has none
	records []flight.Record // its last ones
}

// How many rows of a tree and of running jobs a page has.
const (
	mostActors = 300
	rowsOfJobs = 100
)

// watch looks at a process: at most once a second, for all who watch it.
func (r *request) watch(p *fleet.Process) (seenTree, error) {
	return together(r.Context(), &r.looks, "tree:"+p.Identity, hurryEvery*9/10, func(ctx context.Context) (seen seenTree, err error) {
		if seen.records, err = flight.Last(ctx, r.options.Redis, flight.Most, p.Identity); err != nil {
			return seen, err
		}
		seen.records = r.fleet.Mask.Records(seen.records)
		if r.options.Trees != nil {
			if seen.tree = r.options.Trees()[p.Identity]; seen.tree != nil {
				seen.tree = r.fleet.Shown(seen.tree)
				return seen, nil
			}
		}
		if p.Pulse == nil {
			return seen, nil
		}
		if !r.options.ReadOnly && p.Known != nil && p.Phase != fleet.Silent { // it has to be asked, which writes
			if _, err := r.fleet.Refresh(ctx, []fleet.Process{*p}); err != nil {
				return seen, err
			}
		}
		seen.tree, err = r.fleet.Tree(ctx, p.Identity)
		return seen, err
	})
}

// treeState is what changes when the page of a tree does.
func (r *request) treeState(s *snapshot, id string) any {
	p := s.process(id)
	if p == nil {
		return nil
	}
	seen, err := r.watch(p)
	if err != nil {
		return err.Error()
	}
	all := []any{p.Phase}
	if p.Phase == fleet.Silent || p.Phase == fleet.Gone {
		all = append(all, s.At)
	}
	for _, n := range seen.tree {
		all = append(all, n.State, n.Note, n.Restarts, n.Depth > 0, len(n.Unresponsive), n.Budget)
		if n.Job != nil {
			all = append(all, n.Job.JID)
		}
	}
	if n := len(seen.records); n > 0 { // a fence changes nothing else
		all = append(all, seen.records[n-1].At)
	}
	return append(all, len(fleet.Within(seen.records, flight.Restarted, s.At, time.Minute)))
}

// process is one of a snapshot, nil if it is not there.
func (s *snapshot) process(id string) *fleet.Process {
	if i := slices.IndexFunc(s.Processes, func(p fleet.Process) bool { return p.Identity == id }); i >= 0 {
		return &s.Processes[i]
	}
	return nil
}

func (r *request) processTree(s *snapshot) (*page, error) {
	r.sampler.hurry()
	id := r.name("id")
	p := s.process(id)
	if p == nil {
		return nil, r.noProcess(id)
	}
	ghosts, err := r.ghosts(s.Processes)
	if err != nil {
		return nil, err
	}
	seen, err := r.watch(p)
	if err != nil {
		return nil, err
	}
	out := treePage{Process: treeRow{processRow: r.row(p), Ghost: ghosts[id]}, Known: seen.tree != nil, Actors: []actorRow{}, Unresponsive: []unended{}}
	out.Process.tell(p.Pulse)
	storms, err := r.storms([]fleet.Process{*p})
	if err != nil {
		return nil, err
	}
	if ghost := out.Process.Ghost; ghost != "" {
		severity := map[string]string{fleet.Gone: doctor.Danger, fleet.Silent: doctor.Warning}[p.Phase]
		storms = append(storms, fleet.Problem{Finding: doctor.Finding{Severity: severity, Code: p.Phase, Text: ghost}})
	}
	for i := range storms {
		storms[i].Process = "" // it is this page
	}
	out.Notes = r.linked(append(storms, fleet.Fences(seen.records)...))
	rows := rowsOf(seen)
	if q, only := strings.ToLower(r.query("q")), r.query("trouble") != ""; q != "" || only {
		rows = slices.DeleteFunc(rows, func(a actorRow) bool { return only && !a.Trouble || !a.has(q) })
		for i := range rows {
			rows[i].Folded = false
		}
	}
	for i := range rows {
		for _, u := range rows[i].Unresponsive {
			out.Unresponsive = append(out.Unresponsive, unended{u, rows[i].Capsule})
		}
	}
	if len(rows) > mostActors && r.query("q") != "" {
		out.Hidden, rows = len(rows)-mostActors, rows[:mostActors]
	}
	out.Actors = append(out.Actors, rows...)
	return &page{Template: "actors", Title: "Tree of " + id, Data: out, Topic: "tree:" + id}, nil
}

// noProcess is the fault for a process that is not there.
func (r *request) noProcess(id string) error {
	f := &fault{Status: http.StatusNotFound, Text: fmt.Sprintf("There is no process %q, and none has died within the last 15 minutes.", id), Do: "It may have stopped or died before. Its events are kept for three days."}
	f.Events = r.eventsAbout(id)
	return f
}

// eventsAbout is the address of the events of a process and of those that name it; "" if the user may not see it.
func (r *request) eventsAbout(id string) string {
	address := r.link("/events")
	if address != "" {
		address += "?" + url.Values{"process": {id}}.Encode()
	}
	return address
}

// has reports whether a text, in lower case, is anywhere in the row.
func (a *actorRow) has(q string) bool {
	texts := []string{a.Path, string(a.State), a.Note, a.LastFailure, a.Why}
	if a.Job != nil {
		texts = append(texts, a.Job.JID, a.Job.Class, a.Job.Queue)
	}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), q) })
}

// rowsOf are the actors of a tree, with what the flight recorder tells of them.
func rowsOf(seen seenTree) []actorRow {
	rows := make([]actorRow, len(seen.tree))
	lately, states := fleet.TreeLately(seen.tree, seen.records), map[string][]string{}
	for i, n := range seen.tree {
		a := actorRow{Node: n, Lately: *lately[n.Path], Level: strings.Count(n.Path, "/") + 1, Name: path.Base(n.Path)}
		if n.Role == "processor" {
			a.Folded = !a.Trouble
			states[n.Capsule] = append(states[n.Capsule], strings.Replace(string(n.State), string(tree.StateRunning), string(tree.StateIdle), 1))
		}
		rows[i] = a
	}
	for i := range rows {
		if a := &rows[i]; a.Role == "manager" && len(states[a.Capsule]) > 0 {
			var parts []draw.Part
			parts, a.Strip = draw.Strip(states[a.Capsule])
			a.Words = draw.Words(parts, "no processor")
		}
	}
	return rows
}
