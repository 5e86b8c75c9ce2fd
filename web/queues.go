package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/web/internal/draw"
)

// rows is how many rows a page of a list has.
const rows = 100

func (r *request) queues(s *snapshot) (*page, error) {
	paused, err := r.options.Redis.SMembers(r.Context(), keys.Paused).Result() // it may just have been changed
	if err != nil {
		return nil, err
	}
	all := slices.Clone(s.Queues)
	for i := range all {
		all[i].Paused = slices.Contains(paused, all[i].Name)
	}
	return &page{Template: "queues", Title: "Queues", Data: all, Topic: "queues"}, nil
}

// queuePage is the data of the page of one queue.
type queuePage struct {
	fleet.Queue
	Processes []listener `json:"processes"`          // that take from it, or did
	Jobs      []job      `json:"jobs"`               // the next one to run first
	Filter    string     `json:"filter,omitempty"`   // in words
	Searched  int        `json:"searched,omitempty"` // with a filter
	Depth     draw.Chart `json:"depth"`              // of the last 24 hours
	Oldest    draw.Chart `json:"oldest"`             // likewise
	Pager     pager      `json:"-"`
	Kind      setKind    `json:"-"`
	Bar       filterBar  `json:"-"`
	Chosen    string     `json:"-"` // the filter as parameters
	Export    string     `json:"-"` // address
	All       []doAll    `json:"-"`
	Choices   string     `json:"-"` // the words of All
	Others    []string   `json:"-"` // queues that jobs may be moved to
	Wrong     *fault     `json:"-"` // what is wrong with the filter
}

// listener is a process that takes from a queue.
type listener struct {
	Identity string `json:"identity"`
	Phase    string `json:"phase"`
	Href     string `json:"-"`
}

// pager leads through a list.
type pager struct {
	First, Next     string // addresses; "" where there is nothing
	From, To, Total int64  // of the rows; From is 0 if there are none
}

// pager is the way on from the rows of a list that are shown, of which the first is after so many.
func (r *request) pager(after int64, shown int, total int64) pager {
	to := after + int64(shown)
	p := pager{From: min(after+1, to), To: to, Total: total}
	if after > 0 {
		p.First = r.with("from", "")
	}
	if to < total {
		p.Next = r.with("from", strconv.FormatInt(to, 10))
	}
	return p
}

func (r *request) queue(s *snapshot) (*page, error) {
	q, known := s.queueOf(r.name("name"))
	summary, err := r.fleet.Inspector.Queue(q.Name).Summary(r.Context()) // as it is now
	if err != nil {
		return nil, err
	}
	p := queuePage{Queue: fleet.Listened(summary, s.Processes)}
	p.In, p.Out, p.Growth = q.In, q.Out, q.Growth
	p.Depth, p.Oldest = s.Past.waiting(q.Name), s.Past.oldest(q.Name)
	for _, proc := range s.Processes {
		if proc.Phase != fleet.Gone && proc.Takes(q.Name) {
			p.Processes = append(p.Processes, listener{proc.Identity, proc.Phase, r.link("/tree/{id}", "tree", proc.Identity)})
		}
	}
	k := queueKind(q.Name)
	if !known && p.Waiting == 0 && p.Processes == nil && !p.Paused {
		return nil, notFound("There is no queue %q: nothing was ever pushed there, and nobody listens.", q.Name)
	}
	f, wrong := r.filter(r.query, k)
	if wrong != nil && r.wantsJSON() {
		return nil, wrong
	}
	p.Kind, p.Filter, p.Bar, p.Chosen, p.Choices = k, f.String(), r.fields(k), chosen(r.query), k.choices()
	if p.Others, err = r.otherQueues(k); err != nil {
		return nil, err
	}
	out := &page{Template: "queue", Title: k.Title}
	if wrong != nil {
		p.Wrong = faultOf(wrong)
		out.Status, out.Data = p.Wrong.Status, p
		return out, nil
	}
	p.Export, p.All = r.ofAll(k, p.Chosen)
	w, err := r.walk(k, &f, r.query("after"), mostSearched, searchTime, func(e bulk.Entry, at bulk.Key) bool {
		if len(p.Jobs) == rows {
			return false
		}
		j := r.entry(e, at)
		j.Try = ""
		p.Jobs = append(p.Jobs, j)
		return true
	})
	if err == nil {
		err = r.iterates(len(p.Jobs), func(i int) *job { return &p.Jobs[i] })
	}
	if err != nil {
		return nil, err
	}
	after := r.number("after")
	if p.Filter == "" {
		out.Topic = "queue:" + q.Name
		p.Pager = pager{From: min(after+1, after+int64(len(p.Jobs))), To: after + int64(len(p.Jobs)), Total: p.Waiting}
	} else if p.Searched = w.Looked; len(p.Jobs) > 0 {
		p.Pager = pager{From: p.Jobs[0].Position, To: p.Jobs[len(p.Jobs)-1].Position}
	}
	if after > 0 {
		p.Pager.First = r.with("after", "")
	}
	if w.Next != "" {
		p.Pager.Next = r.with("after", w.Next)
		if len(p.Jobs) < rows {
			out.Partial = fmt.Sprintf("Searched %s of %s.", words.Count(after+int64(w.Looked)), words.Plural(p.Waiting, "job"))
		}
	}
	out.Data, out.Next = p, p.Pager.Next
	return out, nil
}

func (r *request) setPaused() (*page, error) {
	name, paused := r.name("name"), strings.HasSuffix(strings.TrimSuffix(r.path, ".json"), "/pause")
	used, unread := r.fleet.Used(r.Context(), name)
	if err := r.fleet.Inspector.Queue(name).SetPaused(r.Context(), paused); err != nil {
		return nil, err
	}
	back := r.url("queues", name)
	if r.form("back") == "list" {
		back = r.url("queues")
	}
	counts := map[string]bool{"paused": paused}
	if unread == nil && !used {
		state := "not paused"
		if paused {
			state = "paused"
		}
		text := fmt.Sprintf("The queue %s is %s, but nothing was ever pushed to it, and no process listens to it. Is its name right?", name, state)
		return &page{redirect: back, Data: said{Kind: "warning", Text: text, Counts: counts, did: true}}, nil
	}
	if paused {
		return r.done(back, counts, "The queue %s is paused: within seconds nothing is taken from it any more. What runs goes on, and jobs can still be pushed.", name)
	}
	return r.done(back, counts, "The queue %s is not paused any more: jobs are taken from it.", name)
}

func (r *request) deleteQueued() (*page, error) {
	k := queueKind(r.name("name"))
	p, err := bulk.ParseKey(r.form("key"))
	if err != nil {
		return nil, wrong("Use the button of the job on the page of the queue.", "Got the key %q of a job, expected one of a row.", r.form("key"))
	}
	back := r.urlOf(k)
	found, err := r.entryKeys().FindQueued(r.Context(), r.queueOf(k), []bulk.Key{p})
	if err != nil {
		return nil, err
	}
	if j := found[0]; j != nil {
		outcome, err := j.Delete(r.Context())
		if err != nil {
			return nil, err
		}
		if outcome == inspect.Done {
			return r.done(back, map[string]int{"done": 1}, "The job %s (%s) is deleted from the queue %s.", j.JID, j.Summary().Class, k.Queue)
		}
	}
	return r.undone(back, map[string]int{"gone": 1}, "That job is not in the queue %s any more: it was taken or deleted before. Nothing was deleted.", k.Queue)
}

func (r *request) clearQueue() (*confirm, error) {
	name := r.name("name")
	queue := r.fleet.Inspector.Queue(name)
	q, err := queue.Summary(r.Context())
	if err != nil {
		return nil, err
	}
	return &confirm{
		Question: "Delete all jobs of the queue " + name + "?",
		Detail:   words.Plural(q.Size, "job") + ", the oldest of them " + words.Span(q.Latency.Truncate(time.Second)) + " old. They are deleted for good. Jobs that run already go on.",
		Button:   "Delete " + words.Plural(q.Size, "job"), Action: r.url("queues", name, "clear"), Back: r.url("queues", name), Count: q.Size,
		do: func() (*page, error) {
			n, err := queue.Clear(r.Context())
			if err != nil {
				return nil, err
			}
			return r.done(r.url("queues"), map[string]int64{"done": n}, "%s of the queue %s deleted.", words.Plural(n, "job"), name)
		},
	}, nil
}
