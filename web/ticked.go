package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/words"
)

// mostTicked is how many entries a form may name.
const mostTicked = 1000

// actionOf is the action of a name, if it is one for the set or queue.
func actionOf(k setKind, do string) (bulk.Action, error) {
	a, ok := bulk.ActionOf(do)
	switch {
	case !ok:
		return a, wrong("Use the buttons of the page.", "Got the action %q for %s, expected one that it has.", do, k.Name)
	case !a.Allows(k.Name):
		return a, wrong("Use the buttons of the page.", "Got the action %q for %s, but %v.", do, k.Name, a.Refused(k.Name))
	}
	return a, nil
}

// wanted reads from a form what to do with the entries of a set or a queue. The warning, if any, is shown
// to the user.
func (r *request) wanted(k setKind, get func(string) string) (t bulk.Task, warning string, err error) {
	a, err := actionOf(k, get("do"))
	if err != nil {
		return t, "", err
	}
	t = bulk.Task{Action: a, Set: r.setOf(k), Queue: r.queueOf(k)}
	if a.Timed {
		if t.At, err = bulk.ParseFuture(get("at"), time.Now()); err != nil {
			return t, "", wrong("Write 2h for in two hours, or a time.", "The new time: %v.", err)
		}
	}
	if a.Moves {
		t.To, t.Past = r.fleet.Inspector.Queue(get("into")), "moved to the queue "+get("into")
		if err = t.Check(); err == nil {
			warning, err = r.fleet.Destination(r.Context(), t.To.Name)
		}
		switch {
		case err == nil:
		case faultOf(err).Status == http.StatusInternalServerError: // Redis is there, and has no word for it
			return t, "", wrong("Choose another queue.", "The queue to move to: %v.", err)
		default:
			return t, "", err
		}
		if warning != "" {
			warning = " But " + warning + "."
		}
	}
	return t, warning, err
}

// otherQueues are the queues that jobs of one may be moved to.
func (r *request) otherQueues(k setKind) ([]string, error) {
	all, err := r.fleet.Inspector.Queues(r.Context())
	names := []string{}
	for _, q := range all {
		if q.Name != k.Queue && q.Takes() == nil {
			names = append(names, q.Name)
		}
	}
	slices.Sort(names)
	return names, err
}

// ticked acts on the entries that a form names, by their exact bytes.
func (r *request) ticked(k setKind) (*page, error) {
	t, warning, err := r.wanted(k, r.form)
	if err != nil {
		return nil, err
	}
	keys := r.PostForm["key"]
	if len(keys) == 0 || len(keys) > mostTicked {
		return nil, wrong("Tick rows, and then use a button.", "%s ticked, expected 1 to %s.", words.Plural(len(keys), "job"), words.Count(mostTicked))
	}
	var o bulk.Outcome
	var jobs []string
	wanted := make([]bulk.Key, len(keys))
	for i, key := range keys {
		if wanted[i], err = bulk.ParseKey(key); err != nil {
			return nil, wrong("Use the boxes of the page.", "Got the key %q of a job, expected one of a row.", key)
		}
		if jid := wanted[i].JID; jid != "" && len(jid) <= mostValue {
			jobs = append(jobs, jid)
		}
	}
	find, err := r.finder(k, wanted)
	if err != nil {
		return nil, err
	}
	for i, p := range wanted {
		if err := r.one(&t, find, i, p.JID, &o); err != nil {
			f := *faultOf(err)
			if o.Sum() > 0 {
				f.Text = o.Tell(t.Past) + " Then: " + f.Text
			}
			return nil, &f
		}
	}
	back := r.urlOf(k)
	if jid := r.form("jid"); jid != "" {
		back = cmp.Or(r.atDeath(jid, time.Now()), back)
	} else if v, err := url.ParseQuery(r.form("back")); err == nil && len(v) > 0 {
		back = queried(back, v.Encode())
	}
	out := said{Kind: "warning", Text: o.Tell(t.Past) + warning, Counts: o.Counts, jobs: jobs, did: o.Done == len(keys)}
	if out.did && warning == "" {
		out.Kind = "ok"
	}
	return &page{redirect: back, Data: out}, nil
}

// finder finds the entry of each key. One search finds those of a queue.
func (r *request) finder(k setKind, wanted []bulk.Key) (func(i int) (bulk.Entry, error), error) {
	q := r.queueOf(k)
	if q == nil {
		set := r.setOf(k)
		return func(i int) (bulk.Entry, error) {
			e, err := r.entryKeys().Find(r.Context(), set, wanted[i], k.Up)
			return bulk.Entry{Sorted: e}, err
		}, nil
	}
	found, err := r.entryKeys().FindQueued(r.Context(), q, wanted)
	return func(i int) (bulk.Entry, error) { return bulk.Entry{Queued: found[i]}, nil }, err
}

// one acts on one entry.
func (r *request) one(t *bulk.Task, find func(i int) (bulk.Entry, error), i int, jid string, o *bulk.Outcome) error {
	e, err := find(i)
	if err != nil {
		return err
	}
	if e == (bulk.Entry{}) {
		o.Add(bulk.Counts{Gone: 1}, jid)
		return nil
	}
	t.Entries = []bulk.Entry{e}
	c, err := t.Run(r.Context(), func(bulk.Counts) {})
	if c.Sum() > 0 {
		o.Add(c, jid)
	}
	return err
}
