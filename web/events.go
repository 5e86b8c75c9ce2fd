package web

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/flight"
	outcomes "github.com/troupehq/troupe/internal/job"
)

// eventsPage is the data of the flight recorders of the fleet.
type eventsPage struct {
	Events []eventRow     `json:"events"` // the newest first
	Filter filterBar      `json:"-"`
	Kinds  map[string]int `json:"-"` // how many of those that were read are of a kind
	Newest string         `json:"-"` // the address without those that have passed
}

// eventRow is an event.
type eventRow struct {
	flight.Record
	State string `json:"-"` // whose sign it has
	Href  string `json:"-"` // of the tree of its process
	Page  string `json:"-"` // of its job
}

// There lists the kinds of events in a sentence, for a filter that finds none.
func (p eventsPage) There() string {
	if len(p.Kinds) == 0 {
		return ""
	}
	return "There are: " + strings.Join(slices.Sorted(maps.Keys(p.Kinds)), ", ") + ". "
}

// At first the last events of each process are shown; who filters or pages gets at all.
const firstEvents = 100

// eventsSeen are the events of a Redis, the oldest first, and of how many processes.
type eventsSeen struct {
	records   []flight.Record
	processes int
}

func (r *request) eventsOf(most int64) (eventsSeen, error) {
	name := "events"
	if most < flight.Most {
		name = "events first"
	}
	return together(r.Context(), &r.looks, name, hurryEvery*9/10, func(ctx context.Context) (seen eventsSeen, err error) {
		ids, err := flight.Processes(ctx, r.options.Redis)
		if err != nil || len(ids) == 0 {
			return seen, err
		}
		seen.processes = len(ids)
		seen.records, err = flight.Last(ctx, r.options.Redis, most, ids...)
		seen.records = r.fleet.Mask.Records(flight.Fold(seen.records))
		return seen, err
	})
}

// eventsState is what changes when there is a new event.
func (r *request) eventsState(*snapshot, string) any {
	seen, err := r.eventsOf(firstEvents)
	if err != nil || len(seen.records) == 0 {
		return err == nil
	}
	last := seen.records[len(seen.records)-1]
	return []any{last, len(seen.records)}
}

func (r *request) events() (*page, error) {
	kind, process, jid, class := r.query("kind"), r.query("process"), r.query("jid"), r.query("class")
	steady := r.query("restarts") == "no"
	before, err := time.Parse(time.RFC3339Nano, r.query("before"))
	if err != nil && r.query("before") != "" {
		return nil, wrong("Use the links of the page.", "The time before is %q, expected one like 2026-11-24T12:00:00Z.", r.query("before"))
	}
	most := int64(flight.Most)
	if kind+process+jid+class == "" && !steady && before.IsZero() {
		most = firstEvents // none of another process is newer than the hundredth of this one
	}
	seen, err := r.eventsOf(most)
	if err != nil {
		return nil, err
	}
	p := eventsPage{Events: []eventRow{}, Filter: filterBar{Action: r.url("events"), Fields: []filterField{
		{"kind", "Kind", kind, "crashed"}, {"process", "Process", process, "part of an identity"}, {"jid", "Job", jid, "id"}, {"class", "Class", class, ""},
	}, Tick: filterField{"restarts", "without restarts of actors", r.query("restarts"), "no"}}}
	out := &page{Template: "events", Title: "Events"}
	all, chosen := map[string]int{}, map[string]int{}
	for _, rec := range slices.Backward(seen.records) {
		all[rec.Kind]++
		if steady && (rec.Kind == flight.Crashed || rec.Kind == flight.Restarted) || jid != "" && rec.JID != jid || !strings.Contains(rec.Class, class) ||
			!strings.Contains(rec.Process, process) && !strings.Contains(rec.Text, process) { // a rescue names the dead process
			continue
		}
		chosen[rec.Kind]++
		if out.Next != "" || !before.IsZero() && !rec.At.Before(before) || !strings.Contains(rec.Kind, kind) {
			continue
		}
		if n := len(p.Events); n >= rows && !rec.At.Equal(p.Events[n-1].At) {
			out.Next = r.with("before", p.Events[n-1].At.Format(time.RFC3339Nano))
			continue
		}
		p.Events = append(p.Events, eventRow{rec, eventStates[rec.Kind], r.link("/tree/{id}", "tree", rec.Process), r.atDeath(rec.JID, rec.At)})
	}
	if p.Kinds = chosen; len(chosen) == 0 {
		p.Kinds = all
	}
	if !before.IsZero() {
		p.Newest = r.with("before", "")
	} else {
		out.Topic = "events"
	}
	out.Data = p
	return out, nil
}

// eventStates are the signs of events.
var eventStates = func() map[string]string {
	states := outcomes.EventStates()
	maps.Copy(states, map[string]string{
		flight.Crashed: "crashed", flight.Restarted: "restarting", flight.Escalated: "danger", flight.Overruled: "warning",
		flight.Quiet: "quiet", flight.CapsuleQuiet: "quiet", flight.Stop: "stopping", flight.Fenced: "warning",
		flight.Rescued: "ok", flight.Configured: "note", flight.Outbox: "note",
	})
	return states
}()
