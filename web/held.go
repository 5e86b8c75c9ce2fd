package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/words"
)

// mostHolders is how many slots of a rule are shown.
const mostHolders = 20

// heldPage is the data of the page of what a rule holds.
type heldPage struct {
	ruleRow
	Allows  string     `json:"allows"`
	Holders []heldSlot `json:"slots"` // of those that it has given, the first to end first
	Jobs    []job      `json:"jobs"`  // the next to be let in first
	More    int64      `json:"-"`     // slots that are not shown
	Rate    bool       `json:"-"`
	Pager   pager      `json:"-"`
	Note    string     `json:"-"` // what becomes of the jobs
}

// heldSlot is a slot with the address of its job.
type heldSlot struct {
	JID  string `json:"jid"`
	Href string `json:"-"`
}

func (r *request) held() (*page, error) {
	l, rule, err := r.rule()
	if err != nil {
		return nil, err
	}
	p := heldPage{ruleRow: r.ruleRow(rule), Allows: l.Allows.String(), Rate: l.Allows.Every > 0, Jobs: []job{}, Holders: []heldSlot{}, Note: heldNote(l)}
	for _, s := range rule.Slots[:min(len(rule.Slots), mostHolders)] {
		slot := heldSlot{JID: s.JID}
		if addressable(s.JID) {
			slot.Href = r.url("jobs", s.JID)
		}
		p.Holders = append(p.Holders, slot)
	}
	p.More = rule.Taken - int64(len(p.Holders))
	from := r.number("from")
	entries, size, err := rule.Jobs().Page(r.Context(), int(min(from, rule.Held)), rows, true)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		j := r.job(&e.JobRecord)
		j.At, j.Try = e.At, tries(e.Payload)
		p.Jobs = append(p.Jobs, j)
	}
	if err := r.iterates(len(p.Jobs), func(i int) *job { return &p.Jobs[i] }); err != nil {
		return nil, err
	}
	p.Held, p.Pager = size, r.pager(min(from, size), len(p.Jobs), size)
	return &page{Template: "held", Title: "Held by " + p.Rule, Data: p, Next: p.Pager.Next}, nil
}

// heldNote says when the jobs that a limit holds start.
func heldNote(l *inspect.Limit) string {
	switch {
	case !l.Allows.Defined():
		return "No process that runs has this limit in its configuration: these jobs start when one does, or when they are released."
	case l.Allows.Every == 0 && l.Allows.AtOnce == 0:
		return "The limit lets nobody in: these jobs start when it allows more, or when they are released."
	}
	return "They start by themselves as soon as there is room, the first of this list first."
}

// release lets jobs in that the rule of the address holds.
func (r *request) release() (*confirm, error) {
	l, rule, err := r.rule()
	if err != nil {
		return nil, err
	}
	row := r.ruleRow(rule)
	n, posts := int64(1), r.Method == http.MethodPost
	if posts {
		if n = integer(r.form("n")); n < 1 {
			return nil, wrong("Send how many jobs are to be let in.", "Got the number %.40q of jobs, expected 1 or more.", r.form("n"))
		}
	}
	typed := strconv.FormatInt(n, 10)
	n = min(n, max(rule.Held, 1))
	return &confirm{
		Question: "Let jobs in that " + row.Rule + " holds?", Button: "Release", Action: row.Release, Back: row.Href, Count: n, Reason: true,
		Field: &confirmField{"n", "How many", typed, "1"},
		Detail: fmt.Sprintf("The limit allows %s, and holds %s here. Those that are let in run beside the others, above the limit, the oldest first. Those of a paused queue go back to it. The reason is kept in the audit.",
			l.Allows, words.Plural(rule.Held, "job")),
		do: func() (*page, error) {
			done, err := rule.Release(r.Context(), int(n))
			switch {
			case err != nil:
				return nil, err
			case done == 0:
				return r.undone(row.Href, map[string]int{"done": 0}, "%s holds no job any more. Nothing was released.", row.Rule)
			}
			return r.done(row.Href, map[string]int{"done": done}, "%s that %s held: let in, though there was no room.", words.Plural(done, "job"), row.Rule)
		},
	}, nil
}

// limit is the one that the address names, on a Redis Cluster of the first queue that has it.
func (r *request) limit() (*inspect.Limit, error) {
	name := r.query("limit")
	if name == "" {
		return nil, wrong("Use a button of the page of limits.", "Got no limit, expected the name of one.")
	}
	all, _, err := r.fleet.Inspector.Limit(r.Context(), name)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (r *request) setLimit() (*confirm, error) {
	l, err := r.limit()
	if err != nil {
		return nil, err
	}
	row := r.limitRow(l)
	c := &confirm{
		Question: "What shall the limit " + l.Name + " allow?", Button: "Set the limit", Action: row.Set, Back: r.url("limits"), Count: 1, Reason: true,
		Field:  &confirmField{"to", "It allows", r.form("to"), "5, 10/1m or 10/1m burst 3"},
		Detail: fmt.Sprintf("It allows %s now. Write 5 for five at once, 10/1m for ten a minute, 10/1m burst 3 if three may start together after a pause, 0 to let nobody in. It counts for all processes at once, and after restarts, until somebody resets it. The reason is kept in the audit.", l.Allows),
	}
	if r.Method == http.MethodPost {
		to, err := inspect.ParseAllowance(r.form("to"))
		if err != nil {
			return nil, wrong("Write 5, 10/1m or 10/1m burst 3.", "%s.", words.Sentence(err.Error()))
		}
		c.do = func() (*page, error) {
			if err := r.fleet.Inspector.SetLimit(r.Context(), l.Name, to); err != nil {
				return nil, err
			}
			return r.done(r.url("limits"), map[string]int{"done": 1}, "The limit %s allows %s now, in place of %s.", l.Name, to, l.Allows)
		}
	}
	return c, nil
}

func (r *request) resetLimit() (*confirm, error) {
	l, err := r.limit()
	posts := r.Method == http.MethodPost
	none := func() (*page, error) {
		return r.undone(r.url("limits"), map[string]int{"done": 0}, "The limit %s was not set by hand. Nothing was changed.", words.Head(r.query("limit")))
	}
	switch {
	case posts && (errors.Is(err, inspect.ErrNotFound) || err == nil && !l.Pinned):
		return &confirm{Button: "Reset the limit", Count: 1, do: none}, nil
	case err != nil:
		return nil, err
	case !l.Pinned:
		return nil, notFound("The limit %s was not set by hand: it allows what the configuration says.", l.Name)
	}
	then := "It allows " + l.Configured.String() + " then, as the configuration says."
	if !l.Configured.Defined() {
		then = "No configuration has it: it is gone then, and lets nobody in."
	}
	return &confirm{
		Question: "Reset the limit " + l.Name + "?", Button: "Reset the limit", Action: r.limitRow(l).Reset, Back: r.url("limits"), Count: 1, Reason: true,
		Detail: fmt.Sprintf("It was set by hand, and allows %s. %s The reason is kept in the audit.", l.Allows, then),
		do: func() (*page, error) {
			if err := r.fleet.Inspector.ResetLimit(r.Context(), l.Name); err != nil {
				return nil, err
			}
			if !l.Configured.Defined() {
				return r.done(r.url("limits"), map[string]int{"done": 1}, "The limit %s is gone: no configuration has it.", l.Name)
			}
			return r.done(r.url("limits"), map[string]int{"done": 1}, "The limit %s allows %s again.", l.Name, l.Configured)
		},
	}, nil
}
