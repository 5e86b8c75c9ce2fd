package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/words"
)

// mostHolders is how many slots of a rule are shown.
const mostHolders = 20

// rulePage is what the page of the jobs that a rule holds tells of the rule.
type rulePage struct {
	ruleRow
	Allows  string     `json:"allows"`
	Holders []heldSlot `json:"slots"` // of those that it has given, the first to end first
	More    int64      `json:"-"`     // slots that are not shown
	Rate    bool       `json:"-"`
	Breaker bool       `json:"-"`
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
		if _, said := r.Cookie(flashCookie); said == nil && faultOf(err).Status == http.StatusNotFound { // the last job of the key is gone
			return &page{redirect: queried(r.url("limits"), url.Values{"limit": {r.query("limit")}}.Encode())}, nil
		}
		return nil, err
	}
	out, err := r.set(r.ruleKind(rule))
	if err != nil {
		return nil, err
	}
	p := rulePage{ruleRow: r.ruleRow(rule), Allows: l.Allows.String(), Rate: l.Allows.Every > 0, Breaker: l.Allows.Breaker, Holders: []heldSlot{}, Note: heldNote(l, rule)}
	for _, s := range rule.Slots[:min(len(rule.Slots), mostHolders)] {
		slot := heldSlot{JID: s.JID}
		if addressable(s.JID) {
			slot.Href = r.url("jobs", s.JID)
		}
		p.Holders = append(p.Holders, slot)
	}
	p.More = rule.Taken - int64(len(p.Holders))
	set := out.Data.(setPage)
	p.Held, set.Rule = set.Total, &p
	out.Data, out.Topic = set, ""
	return out, nil
}

// heldNote says when the jobs that a limit holds start.
func heldNote(l *inspect.Limit, rule *inspect.LimitRule) string {
	switch {
	case !l.Allows.Defined():
		return "No process that runs has this limit in its configuration: these jobs start when one does, or when they are released."
	case l.Allows.Every == 0 && l.Allows.AtOnce == 0:
		return "The limit lets nobody in: these jobs start when it allows more, or when they are released."
	}
	if !rule.Rests.IsZero() {
		return "Its breaker is open: it " + words.Rests(rule.Rests) + ". One of these jobs is let in then, and the others when that is done."
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

// rest makes the rule of the address rest, or ends its rest.
func (r *request) rest() (*confirm, error) {
	l, rule, err := r.rule()
	if err != nil {
		return nil, err
	}
	row, ends := r.ruleRow(rule), r.query("for") == "0"
	c := &confirm{Count: 1, Reason: true, Back: r.url("limits"), Action: row.Rest, Button: "Have it rest", Question: "Have " + row.Rule + " rest?"}
	switch {
	case !l.Allows.Breaker:
		return nil, notFound("The limit %s has no breaker, so that it does not rest.", l.Name)
	case ends:
		c.Action, c.Button, c.Question = queried(row.Rest, "for=0"), "End the rest", "End the rest of "+row.Rule+"?"
		c.Detail = "Its held jobs are let in at once, as many as the limit allows. The reason is kept in the audit."
	default:
		c.Field = &confirmField{"for", "For", r.form("for"), "15m"}
		c.Detail = "Nobody is let in until then, in all processes. One job is let in after that, and the others when it is done. Jobs that run go on. The reason is kept in the audit."
	}
	d := time.Duration(0)
	if r.Method == http.MethodPost && !ends {
		if d, err = words.ParseDuration(r.form("for")); err != nil {
			return nil, wrong("Write 15m for a quarter of an hour.", "The time %.40q: %v.", r.form("for"), err)
		}
	}
	c.do = func() (*page, error) {
		changed, err := rule.Rest(r.Context(), d)
		switch {
		case err != nil:
			return nil, err
		case !changed:
			return r.undone(c.Back, map[string]int{"done": 0}, "%s does not rest. Nothing was changed.", row.Rule)
		case ends:
			return r.done(c.Back, map[string]int{"done": 1}, "The rest of %s has ended.", row.Rule)
		}
		return r.done(c.Back, map[string]int{"done": 1}, "%s %s.", row.Rule, words.Rests(time.Now().Add(d)))
	}
	return c, nil
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
