package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/words"
)

// batchesPage is the data of the list of batches.
type batchesPage struct {
	Batches []batchRow `json:"batches"` // the newest first
	More    bool       `json:"more"`    // not all were read
	Only    string     `json:"only"`    // open or stuck; "" for all
	Why     string     `json:"-"`       // why it was not looked for stuck ones
	Pager   pager      `json:"-"`
	Links   []filter   `json:"-"`
}

// filter is a link that narrows a list.
type filter struct {
	Title, Href string
	Now         bool
}

// batchRow is a batch with its addresses.
type batchRow struct {
	fleet.Batch
	Href string `json:"-"`
	Up   string `json:"-"` // of the batch around it
}

func (r *request) batchRow(b fleet.Batch) batchRow {
	row := batchRow{Batch: b}
	if addressable(b.ID) {
		row.Href = r.url("batches", b.ID)
	}
	if addressable(b.Parent) {
		row.Up = r.url("batches", b.Parent)
	}
	return row
}

func (r *request) batches() (*page, error) {
	p := batchesPage{Only: r.query("only"), Batches: []batchRow{}}
	all, more, err := r.fleet.Batches(r.Context())
	if err != nil {
		return nil, err
	}
	p.More = more
	switch p.Only {
	case "":
	case "open":
		all = slices.DeleteFunc(all, func(b fleet.Batch) bool { return b.State != inspect.BatchOpen })
	case "stuck":
		stuck, err := r.fleet.Stuck(r.Context(), fleet.MostSearched, all)
		if errors.Is(err, inspect.ErrTooManyJobs) {
			p.Why = "There are more than " + words.Count(fleet.MostSearched) + " jobs to look at."
		} else if err != nil {
			return nil, err
		}
		all = stuck
	default:
		return nil, wrong("Use a link of the page of batches.", "Got the batches that are %.40q, expected open or stuck.", p.Only)
	}
	for _, f := range [][2]string{{"All", ""}, {"Open", "open"}, {"Stuck", "stuck"}} {
		p.Links = append(p.Links, filter{f[0], r.with("only", f[1], "from", ""), p.Only == f[1]})
	}
	from := min(r.number("from"), int64(len(all)))
	shown := all[from:min(from+rows, int64(len(all)))]
	for _, b := range shown {
		p.Batches = append(p.Batches, r.batchRow(b))
	}
	p.Pager = r.pager(from, len(shown), int64(len(all)))
	return &page{Template: "batches", Title: "Batches", Data: p, Next: p.Pager.Next}, nil
}

// batchPage is the data of the page of a batch.
type batchPage struct {
	batchRow
	Dead   []heldSlot  `json:"-"`
	Calls  []heldSlot  `json:"-"` // the jobs of its callbacks, in their order
	Within []batchRow  `json:"-"`
	More   bool        `json:"-"` // it has more batches within it
	Why    string      `json:"-"` // why its jobs were not looked for
	Times  []batchTime `json:"-"`
	Close  string      `json:"-"`
	Cancel string      `json:"-"`
	Out    string      `json:"-"` // where its missing jobs are counted out
}

// batchTime is when something has happened.
type batchTime struct {
	Title string
	At    time.Time
}

func (r *request) batch() (*page, error) {
	b, more, why, err := r.fleet.OneBatch(r.Context(), r.name("id"), fleet.MostSearched)
	if err != nil {
		return nil, err
	}
	p := batchPage{batchRow: r.batchRow(b), More: more}
	if why != nil && !errors.Is(why, inspect.ErrTooManyJobs) {
		return nil, why
	}
	if why != nil {
		p.Why = "There are more than " + words.Count(fleet.MostSearched) + " jobs."
	}
	link := func(jid string) heldSlot {
		slot := heldSlot{JID: jid}
		if addressable(jid) {
			slot.Href = r.url("jobs", jid)
		}
		return slot
	}
	for _, c := range b.Callbacks {
		p.Calls = append(p.Calls, link(c.JID))
	}
	if b.Jobs != nil {
		for _, jid := range b.Jobs.Dead[:min(len(b.Jobs.Dead), mostHolders)] {
			p.Dead = append(p.Dead, link(jid))
		}
	}
	for _, c := range b.Children {
		p.Within = append(p.Within, r.batchRow(c))
	}
	times := []batchTime{{"Made", b.Made}, {"Counted last", b.Last}}
	if !b.Complete.IsZero() {
		times = append(times, batchTime{"Complete", b.Complete})
	}
	if !b.Success.IsZero() {
		times = append(times, batchTime{"Succeeded", b.Success})
	}
	if !b.Death.IsZero() {
		times = append(times, batchTime{"First death", b.Death})
	}
	if !b.Cancelled.IsZero() {
		times = append(times, batchTime{"Cancelled", b.Cancelled})
	}
	p.Times = times
	if b.Jobs != nil && b.Jobs.Missing > 0 {
		p.Out = r.url("batches", b.ID, "count-out")
	}
	if !b.Ended() {
		p.Cancel = r.url("batches", b.ID, "cancel")
		if b.State == inspect.BatchOpen || b.Refused() != "" {
			p.Close = r.url("batches", b.ID, "close")
		}
	}
	return &page{Template: "batch", Title: "Batch " + words.Head(b.ID), Data: p}, nil
}

// batchAct is an action of a client.
type batchAct func(ctx context.Context, id string) error

// closeBatch and cancelBatch act on the batch of the address.
func (r *request) closeBatch() (*confirm, error) {
	return r.endBatch("Close", "closed", "Its callbacks are pushed when its jobs have ended, or now.", r.fleet.Inspector.Client.CloseBatch)
}

func (r *request) cancelBatch() (*confirm, error) {
	return r.endBatch("Cancel", "cancelled", "Its waiting jobs, and those of the batches within it, are dropped when their turn comes, and no callback is pushed any more. Jobs that run go on. There is no way back.", r.fleet.Inspector.Client.CancelBatch)
}

func (r *request) endBatch(verb, done, detail string, act batchAct) (*confirm, error) {
	id := r.name("id")
	b, err := r.fleet.Inspector.Batch(r.Context(), id)
	if err != nil {
		return nil, err
	}
	back := r.url("batches", id)
	none := func() (*page, error) {
		return r.undone(back, map[string]int{"done": 0}, "The batch %s has ended. Nothing was done.", words.Head(id))
	}
	switch {
	case b.Ended() && r.Method == http.MethodPost:
		return &confirm{Button: verb, Count: 1, do: none}, nil
	case b.Ended():
		return nil, notFound("The batch %s has ended: it is %s.", words.Head(id), b.State())
	}
	return &confirm{
		Question: verb + " the batch " + words.Head(id) + "?", Button: verb + " the batch", Action: r.url("batches", id, strings.ToLower(verb)), Back: back, Count: 1, Reason: true,
		Detail: fmt.Sprintf("It has %s, of which %s not done. %s The reason is kept in the audit.", words.Plural(b.Total, "job"), words.Count(b.Pending), detail),
		do: func() (*page, error) {
			if err := act(r.Context(), id); err != nil {
				return nil, err
			}
			return r.done(back, map[string]int{"done": 1}, "The batch %s is %s.", words.Head(id), done)
		},
	}, nil
}

// countOut counts the missing jobs of the batch of the address as done, as a task: it looks for them twice.
func (r *request) countOut() (*confirm, error) {
	id := r.name("id")
	b, _, why, err := r.fleet.OneBatch(r.Context(), id, fleet.MostSearched)
	switch {
	case err != nil:
		return nil, err
	case errors.Is(why, inspect.ErrTooManyJobs):
		return nil, wrong("Use the command: troupe batches count-out "+id, "There are more than %s jobs, which are not looked at from a page.", words.Count(fleet.MostSearched))
	case why != nil:
		return nil, why
	}
	missing := int64(0)
	if b.Jobs != nil {
		missing = b.Jobs.Missing
	}
	back := r.url("batches", id)
	switch {
	case missing == 0 && r.Method == http.MethodPost:
		return &confirm{Button: "Count out", do: func() (*page, error) {
			return r.undone(back, map[string]int{"done": 0}, "No job of the batch %s is missing. Nothing was done.", words.Head(id))
		}}, nil
	case missing == 0:
		return nil, notFound("No job of the batch %s is missing.", words.Head(id))
	}
	jobs := words.Plural(missing, "job")
	return &confirm{
		Question: "Count " + jobs + " of the batch " + words.Head(id) + " as done?", Button: "Count " + jobs + " out", Action: r.url("batches", id, "count-out"), Back: back, Count: missing, Reason: true,
		Detail: fmt.Sprintf("They are in no queue and no set, and nobody runs them: Ruby has run or deleted them, they have fallen out of the dead set, or Redis has lost them. They are looked for once more, after %s, "+
			"since Ruby tells of what it runs every 10 seconds. Then those are counted that are missing still, and callbacks may be pushed. There is no way back. The reason is kept in the audit.", words.Span(r.looksApart)),
		do: func() (*page, error) {
			task, err := r.start(setKind{Name: batchTask + id}, bulk.Task{Action: bulk.CountOut, Batch: b.Batch, Apart: r.looksApart, Limit: int(missing)})
			if err != nil {
				return nil, err
			}
			return &page{redirect: r.url("tasks", task), Data: said{
				Kind: "ok", Text: "It has begun: " + jobs + " of the batch " + words.Head(id) + " are looked for once more.", Counts: map[string]any{"task": task, "limit": missing}, task: task, begun: true,
			}}, nil
		},
	}, nil
}
