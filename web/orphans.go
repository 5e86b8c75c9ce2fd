package web

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/words"
)

// orphansEvery is how old what stands on the page may be.
const orphansEvery = 4 * time.Second

// orphansPage is the data of what processes have in progress.
type orphansPage struct {
	Fetchers []fetcherRow `json:"fetchers"` // those of dead processes first
	Jobs     int64        `json:"jobs"`
	Orphaned int64        `json:"orphaned"` // of processes that are dead
	Alone    bool         `json:"-"`        // no process of troupe lives that puts them back
}

// fetcherRow is a capsule of a process, with the jobs that it has taken and not settled.
type fetcherRow struct {
	ID      string     `json:"fetcher"`
	Process string     `json:"process"`
	Capsule string     `json:"capsule"`
	Alive   bool       `json:"alive"`
	Lease   float64    `json:"lease_s"` // what is left of it
	Fenced  bool       `json:"fenced"`  // a rescuer is at it
	Unknown string     `json:"unknown,omitempty"`
	Jobs    int64      `json:"jobs"`
	Next    string     `json:"next"` // who puts them back when
	Lists   []claimRow `json:"lists"`
	Href    string     `json:"-"`
}

// claimRow is a list of jobs.
type claimRow struct {
	List    string    `json:"list"`
	Queue   string    `json:"queue"`
	Jobs    int64     `json:"jobs"`
	Since   time.Time `json:"since,omitzero"`
	Suspect bool      `json:"suspect,omitempty"`
}

// mostLists is how many lists of a fetcher a page has.
const mostLists = 50

func (r *request) orphans(s *snapshot) (*page, error) {
	p, err := r.inProgress(s)
	if err != nil {
		return nil, err
	}
	return &page{Template: "orphans", Title: "Orphans", Data: p, Topic: "orphans"}, nil
}

// inProgress reads what is in progress.
func (r *request) inProgress(s *snapshot) (orphansPage, error) {
	p := orphansPage{Fetchers: []fetcherRow{}, Alone: len(fleet.Ours(s.Processes)) == 0}
	type seen struct {
		fetchers []*inspect.Fetcher
		claims   map[string][]*inspect.Claim
	}
	all, err := together(r.Context(), &r.looks, "claims", hurryEvery, func(ctx context.Context) (all seen, err error) {
		all.claims = map[string][]*inspect.Claim{}
		if all.fetchers, err = r.fleet.Inspector.Fetchers(ctx); err != nil {
			return all, err
		}
		for c, err := range r.fleet.Inspector.Claims(ctx) {
			if err != nil {
				return all, err
			}
			all.claims[c.Fetcher.ID] = append(all.claims[c.Fetcher.ID], c)
		}
		return all, nil
	})
	if err != nil {
		return p, err
	}
	for _, f := range all.fetchers {
		row := fetcherRow{
			ID: f.ID, Process: f.Process, Capsule: f.Capsule, Alive: f.Alive, Lease: f.Lease.Seconds(), Fenced: f.Fenced, Unknown: f.Unknown,
			Jobs: f.Size, Lists: []claimRow{}, Next: fleet.WhatBecomes(f, p.Alone),
		}
		if s.process(f.Process) != nil {
			row.Href = r.link("/tree/{id}", "tree", f.Process)
		}
		for _, c := range all.claims[f.ID] {
			row.Lists = append(row.Lists, claimRow{c.Field, c.Queue, c.Size, c.Since, c.Suspect})
		}
		slices.SortStableFunc(row.Lists, func(a, b claimRow) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Queue, b.Queue)) })
		row.Lists = row.Lists[:min(len(row.Lists), mostLists)]
		if p.Jobs += f.Size; !f.Alive {
			p.Orphaned += f.Size
		}
		p.Fetchers = append(p.Fetchers, row)
	}
	slices.SortStableFunc(p.Fetchers, func(a, b fetcherRow) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Jobs, a.Jobs))
	})
	return p, nil
}

// rank puts what is dead before what lives.
func rank(f fetcherRow) int {
	switch {
	case f.Unknown != "":
		return 1
	case f.Alive:
		return 2
	}
	return 0
}

func (r *request) rescue() (*confirm, error) {
	s, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	p, err := r.inProgress(s)
	if err != nil {
		return nil, err
	}
	jobs := words.Plural(p.Orphaned, "job")
	return &confirm{
		Question: "Put the jobs of dead processes back?", Button: "Put " + jobs + " back", Action: r.url("orphans", "rescue"), Back: r.url("orphans"),
		Detail: jobs + " of processes whose lease is over go back into their queues, to the end that is taken from next. Processes of troupe do it by themselves, and count which jobs have killed their process; this does not count.",
		do:     func() (*page, error) { return r.putBack(fleet.Ours(s.Processes)) },
	}, nil
}

// putBack puts the jobs of dead processes back, unless a live process does that: ours are those that do.
func (r *request) putBack(ours []string) (*page, error) {
	nothing := func(format string, args ...any) (*page, error) {
		return r.undone(r.url("orphans"), map[string]int{"done": 0}, "Nothing was done: "+format, args...)
	}
	if len(ours) > 0 {
		return nothing("%s lives, and puts the jobs of dead processes back by itself, within a minute.", ours[0])
	}
	fetchers, err := r.fleet.Inspector.Fetchers(r.Context())
	if err != nil {
		return nil, err
	}
	var dead []string
	for _, f := range fetchers {
		if !f.Alive && f.Unknown == "" {
			dead = append(dead, f.ID)
		}
	}
	if len(dead) == 0 {
		return nothing("no lease is over.")
	}
	rescuer, err := rescue.New(rescue.Config{Redis: r.options.Redis, Logger: r.options.Logger})
	if err != nil {
		return nil, err
	}
	round, err := rescuer.RescueOnly(r.Context(), dead...)
	switch {
	case errors.Is(err, rescue.ErrBusy):
		return nothing("%v. Try again in some seconds.", err)
	case err != nil:
		return nil, err
	}
	return r.done(r.url("orphans"), map[string]int{"done": round.Units}, "%s of %s put back.", words.Plural(round.Units, "job"), words.Plural(round.Fetchers, "dead capsule"))
}
