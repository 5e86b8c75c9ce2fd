package web

import (
	"cmp"
	"net/url"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/words"
)

// mostTicked is how many entries a form may name.
const mostTicked = 1000

// actionOf is the action of a name, if it is one for the set.
func actionOf(k setKind, do string) (bulk.Action, error) {
	a, ok := bulk.ActionOf(do)
	switch {
	case !ok:
		return a, wrong("Use the buttons of the page.", "Got the action %q for the set %s, expected one that it has.", do, k.Name)
	case !a.Allows(k.Name):
		return a, wrong("Use the buttons of the page.", "Got the action %q for the set %s, but %v.", do, k.Name, bulk.ErrNotAllowed)
	}
	return a, nil
}

// wanted reads what a form wants to be done to the entries of a set.
func (r *request) wanted(k setKind, get func(string) string) (t bulk.Task, err error) {
	a, err := actionOf(k, get("do"))
	if err != nil {
		return t, err
	}
	t = bulk.Task{Action: a, Set: r.setOf(k)}
	if a.Timed && r.Method == "POST" {
		if t.At, err = bulk.ParseFuture(get("at"), time.Now()); err != nil {
			return t, wrong("Write 2h for in two hours, or a time.", "The new time: %v.", err)
		}
	}
	return t, nil
}

// ticked acts on the entries that a form names, by their exact bytes.
func (r *request) ticked(k setKind) (*page, error) {
	t, err := r.wanted(k, r.form)
	if err != nil {
		return nil, err
	}
	keys := r.PostForm["key"]
	if len(keys) == 0 || len(keys) > mostTicked {
		return nil, wrong("Tick rows, and then use a button.", "%s ticked, expected 1 to %s.", words.Plural(len(keys), "job"), words.Count(mostTicked))
	}
	var o bulk.Outcome
	var jobs []string
	for _, key := range keys {
		p, err := bulk.ParsePlace(key)
		if err != nil {
			return nil, wrong("Use the boxes of the page.", "Got the key %q of a job, expected one of a row.", key)
		}
		if p.JID != "" && len(p.JID) <= mostValue {
			jobs = append(jobs, p.JID)
		}
		if err := r.one(&t, k, p, &o); err != nil {
			f := *faultOf(err)
			if o.Sum() > 0 {
				f.Text = o.Tell(t.Past) + " Then: " + f.Text
			}
			return nil, &f
		}
	}
	back := r.url(k.Path)
	if jid := r.form("jid"); jid != "" {
		back = cmp.Or(r.atDeath(jid, time.Now()), back)
	} else if v, err := url.ParseQuery(r.form("back")); err == nil && len(v) > 0 {
		back += "?" + v.Encode()
	}
	out := said{Kind: "warning", Text: o.Tell(t.Past), Counts: o.Counts, jobs: jobs}
	if o.Done == len(keys) {
		out.Kind = "ok"
	}
	return &page{redirect: back, Data: out}, nil
}

// one acts on one entry.
func (r *request) one(t *bulk.Task, k setKind, p bulk.Place, o *bulk.Outcome) error {
	e, err := r.places().Find(r.Context(), t.Set, p, k.Up)
	if err != nil {
		return err
	}
	if e == nil {
		o.Add(bulk.Counts{Gone: 1}, p.JID)
		return nil
	}
	t.Entries = []*inspect.SortedEntry{e}
	c, err := t.Run(r.Context(), func(bulk.Counts) {})
	if c.Sum() > 0 {
		o.Add(c, p.JID)
	}
	return err
}
