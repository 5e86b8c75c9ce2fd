package web

import (
	"strings"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/words"
)

// setKind is what pages know of a set, or of a queue.
type setKind struct {
	Name    string // retry, scheduled, dead or queue:NAME
	Path    string // of its page, as in the table of routes
	Title   string
	When    string // heading of the time
	Columns string
	Up      bool // the lowest score first
	Empty   [2]string
	Spans   [][4]string // of time that are asked for often: what it is called, from, to, failed from
	Queue   string      // the name of the queue; "" of a set

	Rule *inspect.LimitRule // whose held jobs these are; nil of other sets
}

// queueKind is that of a queue.
func queueKind(name string) setKind {
	return setKind{Name: bulk.Queued + name, Path: "queues/{name}", Title: "Queue " + name, When: "Pushed", Columns: "tick position", Queue: name}
}

// ruleKind is that of what a rule holds.
func (r *request) ruleKind(rule *inspect.LimitRule) setKind {
	return setKind{Name: bulk.Held, Path: "limits/held", Title: "Held by " + r.ruleText(rule), When: "Pushed", Columns: "tick queue try", Up: true, Rule: rule, Empty: [2]string{
		"It holds nothing", "Jobs that find no room wait here, and cost nothing while they do.",
	}, Spans: [][4]string{{"pushed within the last hour", "1h", "", ""}, {"today", "today", "", ""}}}
}

// kindOf is that of a set, of a queue by queue:NAME, or of all held jobs.
func kindOf(name string) (k setKind, ok bool) {
	if name == bulk.Held {
		return setKind{Name: name, Title: "held jobs"}, true
	}
	if queue, ok := strings.CutPrefix(name, bulk.Queued); ok {
		return queueKind(queue), true
	}
	k, ok = setKinds[name]
	return k, ok
}

var setKinds = map[string]setKind{
	"retry": {"retry", "retries", "Retries", "Next try", "tick queue try error", true, [2]string{
		"Nothing fails", "Jobs that have failed and are to be tried again wait here.",
	}, [][4]string{{"failed within the last hour", "", "", "1h"}, {"failed today", "", "", "today"}, {"next try within an hour", "", "1h", ""}, {"within a day", "", "24h", ""}}, "", nil},
	"scheduled": {"scheduled", "scheduled", "Scheduled", "Due", "tick queue", true, [2]string{
		"Nothing is scheduled", "Jobs that were pushed for later wait here until they are due.",
	}, [][4]string{{"within an hour", "", "1h", ""}, {"within a day", "", "24h", ""}}, "", nil},
	"dead": {"dead", "dead", "Dead", "Died", "tick queue try error", false, [2]string{
		"Nothing has died", "Jobs that have used up their retries, and those that were killed, are kept here, for " + words.Days(limits.DeadTimeout) + " by default.",
	}, [][4]string{{"last hour", "1h", "", ""}, {"today", "today", "", ""}, {"yesterday", "yesterday", "today", ""}}, "", nil},
}

// Allows reports whether an action is one for the set.
func (k setKind) Allows(do string) bool {
	a, ok := bulk.ActionOf(do)
	return ok && a.Allows(k.Name)
}

// Of is whose its jobs are, behind how many.
func (k setKind) Of() string {
	if k.Rule != nil {
		return strings.ToLower(k.Title[:1]) + k.Title[1:]
	}
	return "of " + k.Title
}

// ahead reports whether its jobs are due in the time to come.
func (k setKind) ahead() bool { return k.Up && k.Rule == nil }

// choices are the actions for all entries of a set, as the button that opens them names them.
func (k setKind) choices() string {
	var all []string
	for _, a := range bulk.Actions {
		switch {
		case !k.Allows(a.Name):
		case k.Name == "scheduled" && a.Name == "retry":
			all = append(all, "run now")
		default:
			all = append(all, a.Name)
		}
	}
	last := len(all) - 1
	text := strings.Join(all[:last], ", ") + " or " + all[last]
	return strings.ToUpper(text[:1]) + text[1:]
}

// on makes a page function of one that is for a set.
func on(set string, do func(*request, setKind) (*page, error)) func(*request) (*page, error) {
	return func(r *request) (*page, error) { return do(r, setKinds[set]) }
}

// onQueue makes one of it for the queue of the address.
func onQueue(do func(*request, setKind) (*page, error)) func(*request) (*page, error) {
	return func(r *request) (*page, error) { return do(r, queueKind(r.name("name"))) }
}

// onRule makes one of it for the jobs that the rule of the address holds.
func onRule(do func(*request, setKind) (*page, error)) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		_, rule, err := r.rule()
		if err != nil {
			return nil, err
		}
		return do(r, r.ruleKind(rule))
	}
}

func (r *request) setOf(k setKind) *inspect.JobSet {
	if k.Rule != nil {
		return k.Rule.Jobs()
	}
	return bulk.SetOf(r.fleet.Inspector, k.Name)
}

// queueOf is the queue of a kind; nil of a set.
func (r *request) queueOf(k setKind) *inspect.Queue {
	if k.Queue == "" {
		return nil
	}
	return r.fleet.Inspector.Queue(k.Queue)
}

// sizeOf is how many jobs are there.
func (r *request) sizeOf(k setKind) (int64, error) {
	if q := r.queueOf(k); q != nil {
		summary, err := q.Summary(r.Context())
		return summary.Size, err
	}
	return r.setOf(k).Size(r.Context())
}

// urlOf is the address of the page of a set or a queue, or of one below it.
func (r *request) urlOf(k setKind, below ...string) string {
	switch {
	case k.Queue != "":
		return r.url(append([]string{"queues", k.Queue}, below...)...)
	case k.Rule != nil:
		return r.ruleURL(k.Rule, append([]string{"held"}, below...)...)
	}
	return r.url(append([]string{k.Path}, below...)...)
}
