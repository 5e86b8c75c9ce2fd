package web

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/words"
)

const (
	bulkRate    = 1000 // entries a second
	previewTime = 7 * time.Second
	previewRows = 10
)

// preview is the data of the page before an action on all entries that a filter chooses.
type preview struct {
	Set    string        `json:"set"`
	Action string        `json:"action"`
	Filter string        `json:"filter"`
	Count  int64         `json:"count"`
	Jobs   []job         `json:"jobs"` // the first of them
	Will   string        `json:"will"` // what happens
	Kind   setKind       `json:"-"`
	Timed  bool          `json:"-"`
	Queues []string      `json:"-"` // that jobs may be moved to; nil for another action
	Into   string        `json:"-"` // the one that was chosen before
	Hidden []filterField `json:"-"` // the filter, with times that stay
	Ask    confirm       `json:"-"`
}

// will says what an action does.
var will = map[string]string{
	"retry":      "Each is put into its queue now, and runs as soon as it is taken. A manual retry is not counted.",
	"release":    "Each is let in though there is no room: the limit is exceeded by as many. Those of a paused queue go back to it.",
	"kill":       "Each is moved to the dead set, and is not tried again. It can be retried from there.",
	"delete":     "Each is deleted for good. This cannot be taken back.",
	"reschedule": "Each gets the time below, and stays in this set until then.",
	"move":       "Each is put into the queue below, behind those that wait there, and its retries go there, too.",
}

// preview tells what an action would do, and asks for it; also where it was not confirmed.
func (r *request) preview(k setKind) (*page, error) {
	get := r.query
	if r.Method == http.MethodPost {
		get = r.form
	}
	f, err := r.filter(get, k)
	if err != nil {
		return nil, err
	}
	a, err := actionOf(k, cmp.Or(get("do"), bulk.Actions[slices.IndexFunc(bulk.Actions, func(a bulk.Action) bool { return k.Allows(a.Name) })].Name))
	if err != nil {
		return nil, err
	}
	p := preview{Set: k.Name, Action: a.Name, Filter: f.String(), Jobs: []job{}, Will: will[a.Name], Kind: k, Timed: a.Timed}
	if k.Name == "scheduled" && a.Name == "retry" {
		p.Will = "Each is put into its queue now, and runs as soon as it is taken."
	}
	if a.Moves {
		p.Into = get("into")
		if p.Queues, err = r.otherQueues(k); err != nil {
			return nil, err
		}
	}
	w, err := r.walk(k, &f, "", math.MaxInt, previewTime, func(e bulk.Entry, at bulk.Key) bool {
		if p.Count++; len(p.Jobs) < previewRows {
			p.Jobs = append(p.Jobs, r.entry(e, at))
		}
		return p.Filter != "" || len(p.Jobs) < previewRows
	})
	if err != nil {
		return nil, err
	}
	out := &page{Template: "bulk", Title: "All that match"}
	size, err := r.sizeOf(k)
	switch {
	case err != nil:
		return nil, err
	case p.Filter == "":
		p.Count = size
	case !w.End:
		out.Partial = "Looked at " + words.Count(w.Looked) + " of " + words.Count(size) + " entries. Those found are acted on; come again for the others."
	}
	for _, name := range filterNames {
		value := get(name)
		if at := timesOf(&f)[name]; at != nil && !at.IsZero() {
			value = at.UTC().Format(time.RFC3339Nano)
		}
		p.Hidden = append(p.Hidden, filterField{Name: name, Value: value})
	}
	p.Ask = confirm{Count: p.Count, Again: r.Method == http.MethodPost, Action: r.urlOf(k, "all"), Back: queried(r.urlOf(k), chosen(get))}
	out.Data = p
	return out, nil
}

// startBulk begins a task.
func (r *request) startBulk(k setKind) (*page, error) {
	t, warning, err := r.wanted(k, r.form)
	if err != nil {
		return nil, err
	}
	if t.Filter, err = r.filter(r.form, k); err != nil {
		return nil, err
	}
	n := integer(r.form("count"))
	if n < 1 || !r.confirmed(n) {
		if r.wantsJSON() {
			return nil, wrong("Look at the preview, and send its count, above 100 as typed, too.", "Got the count %q and %q typed.", r.form("count"), r.form("typed"))
		}
		return r.preview(k)
	}
	t.Rate, t.Limit = bulkRate, int(min(n, math.MaxInt32))
	id, err := r.start(k, t)
	if err != nil {
		return nil, err
	}
	return &page{redirect: r.url("tasks", id), Data: said{
		Kind: "ok", Text: "It has begun: " + t.Name + " of " + words.Plural(n, "job") + "." + warning, Counts: map[string]any{"task": id, "limit": t.Limit}, task: id, begun: true,
	}}, nil
}
