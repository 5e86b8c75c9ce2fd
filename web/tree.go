package web

import (
	"context"
	"html/template"
	"maps"
	"slices"
	"time"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/web/internal/draw"
)

// fleetPage is the data of the tree of the whole fleet.
type fleetPage struct {
	Storms []problem    `json:"storms"`
	By     string       `json:"by,omitempty"` // that the processes are grouped by: tag, version or host
	Groups []treeGroup  `json:"groups"`
	Fleet  fleet.Counts `json:"fleet"`
	Shown  int          `json:"shown"`
}

// treeGroup is what processes have in common, with them.
type treeGroup struct {
	Name      string    `json:"name"`
	Processes []treeRow `json:"processes"` // those in trouble first
}

// treeRow is a process as its pulse tells.
type treeRow struct {
	processRow
	Actors   []actorState `json:"actors"` // single ones that do not run
	Capsules []capsuleBar `json:"capsules"`
	Failure  string       `json:"failure,omitempty"` // the last one of an actor
	Oldest   time.Time    `json:"oldest_job,omitzero"`
	Fencings uint64       `json:"fencings"`
	Ghost    string       `json:"ghost,omitempty"` // what becomes of its jobs, now that it does not beat
}

// HasTree reports whether it is a process of troupe.
func (t treeRow) HasTree() bool { return t.Pulse != nil }

// actorState is an actor with its state.
type actorState struct {
	Path  string `json:"path"`
	State string `json:"state"`
}

// capsuleBar is the count of a capsule's processors, which the page draws.
type capsuleBar struct{ beat.PulseCapsule }

// parts are the states of a capsule that there are, with how many processors.
func (c capsuleBar) parts() (parts []draw.Part) {
	for _, p := range []draw.Part{{State: "busy", N: c.Busy}, {State: "down", N: c.Down}, {State: "held", N: c.Held}, {State: "stopped", N: c.Stopped}, {State: "idle", N: c.Idle}} {
		if p.N > 0 {
			parts = append(parts, p)
		}
	}
	return parts
}

// Words are like "97 busy, 2 idle, 1 down".
func (c capsuleBar) Words() string { return draw.Words(c.parts(), "no processor") }

// Bar is the drawing of Words.
func (c capsuleBar) Bar() template.HTML { return draw.Bar(c.parts()) }

func (r *request) fleetTree(s *snapshot) (*page, error) {
	r.sampler.hurry()
	ghosts, err := r.ghosts(s.Processes)
	if err != nil {
		return nil, err
	}
	p := fleetPage{Fleet: fleet.CountAll(s.Processes), By: r.query("by")}
	storms, err := r.storms(s.Processes)
	if err != nil {
		return nil, err
	}
	p.Storms = r.linked(storms)
	key := fleet.Groups[p.By]
	if p.By == "" {
		key = func(*fleet.Process) string { return "" }
	}
	if key == nil {
		return nil, wrong("Use tag, version or host.", "There is no grouping by %q.", p.By)
	}
	groups := map[string][]treeRow{}
	for i := range s.Processes {
		row := treeRow{processRow: r.row(&s.Processes[i]), Ghost: ghosts[s.Processes[i].Identity]}
		if r.query("trouble") != "" && !row.Trouble {
			continue
		}
		row.tell(row.Pulse)
		p.Shown++
		name := key(&row.Process)
		groups[name] = append(groups[name], row)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		troubledFirst(groups[name], func(t treeRow) bool { return t.Trouble })
		p.Groups = append(p.Groups, treeGroup{name, groups[name]})
	}
	troubledFirst(p.Groups, func(g treeGroup) bool { return g.Processes[0].Trouble })
	return &page{Template: "tree", Title: "Tree", Data: p, Topic: "fleet"}, nil
}

// tell adds what a pulse tells; nil is that of Ruby.
func (t *treeRow) tell(p *beat.Pulse) {
	t.Actors, t.Capsules = []actorState{}, []capsuleBar{}
	if p == nil {
		return
	}
	for _, path := range slices.Sorted(maps.Keys(p.Actors)) {
		t.Actors = append(t.Actors, actorState{path, p.Actors[path]})
	}
	for _, c := range p.Capsules {
		t.Capsules = append(t.Capsules, capsuleBar{c})
	}
	t.Fencings = p.Fencings
	if p.Oldest > 0 {
		t.Oldest = time.UnixMilli(int64(p.Oldest * 1e3))
	}
	if t.Trouble {
		t.Failure = p.Failure
	}
}

// fleetState is what changes when the page of the fleet does.
func (r *request) fleetState(s *snapshot, _ string) any {
	for _, p := range s.Processes {
		if p.Phase == fleet.Silent || p.Phase == fleet.Gone && s.At.Sub(p.Beat) < 2*time.Minute {
			return s.At // it tells how long ago and in how long
		}
	}
	return []any{s.Processes, pulses(s)}
}

// How old what is read for ghosts and storms may be.
const (
	ghostsEvery = 2 * time.Second
	stormsEvery = 10 * time.Second
)

// ghosts says of each process without a heartbeat what becomes of its jobs.
func (r *request) ghosts(processes []fleet.Process) (map[string]string, error) {
	return together(r.Context(), &r.looks, "ghosts", ghostsEvery, func(ctx context.Context) (map[string]string, error) {
		return r.fleet.Ghosts(ctx, processes)
	})
}

// storms are the causes why actors restart again and again, a banner each.
func (r *request) storms(processes []fleet.Process) ([]fleet.Problem, error) {
	return fleet.Storms(processes, func(cause string, ids []string) (flight.Record, error) {
		return together(r.Context(), &r.looks, "storm:"+cause, stormsEvery, func(ctx context.Context) (flight.Record, error) {
			return r.fleet.FirstCrash(ctx, cause, ids)
		})
	})
}
