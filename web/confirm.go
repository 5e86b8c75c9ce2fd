package web

import (
	"net/http"
	"strings"

	"github.com/troupehq/troupe/internal/words"
)

// confirm is what is asked before something that cannot be taken back.
type confirm struct {
	Question string `json:"question"`
	Detail   string `json:"detail"`
	Button   string `json:"button"`
	Action   string `json:"action"` // where the form goes
	Back     string `json:"back"`
	Count    int64  `json:"count"`            // how many it is about; above 100 it has to be typed
	Reason   bool   `json:"reason,omitempty"` // one has to be given
	Again    bool   `json:"-"`                // it was not typed, or typed wrongly
	Said     string `json:"-"`                // the reason, if it was

	Field *confirmField `json:"field,omitempty"` // what else has to be said

	do func() (*page, error)
}

// confirmField is a field of a form that confirms.
type confirmField struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Value string `json:"value"`
	Hint  string `json:"hint"`
}

// mostUntyped is how many things may be acted on without their number being typed.
const mostUntyped = 100

// Typed reports whether the number has to be typed.
func (c confirm) Typed() bool { return c.Count > mostUntyped }

// confirmed reports whether a form confirms to act on so many things as there are now. What it has
// asked for before may have grown a little, but not more.
func (r *request) confirmed(now int64) bool {
	asked := integer(r.form("count"))
	if now > mostUntyped && now > 2*asked {
		return false
	}
	return max(now, asked) <= mostUntyped || integer(strings.ReplaceAll(r.form("typed"), ",", "")) == asked
}

// asked makes a page function of an action: a GET asks, and a POST that confirms it acts.
func asked(action func(*request) (*confirm, error)) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		c, err := action(r)
		if err != nil {
			return nil, err
		}
		c.Again = r.Method == http.MethodPost
		c.Said = strings.TrimSpace(r.form("reason"))
		given := !c.Reason || c.Said != ""
		if c.Again && given && r.confirmed(c.Count) {
			return c.do()
		}
		if c.Again && !given && r.wantsJSON() {
			return nil, wrong("Send the reason, for the audit.", "%s: that was not confirmed, since no reason is given.", c.Button)
		}
		if c.Again && r.wantsJSON() {
			return nil, wrong("Send count and typed, both with the number there is now.", "%s: that was not confirmed. There are %s, got the count %q and %q typed.", c.Button, words.Count(c.Count), r.form("count"), r.form("typed"))
		}
		return &page{Template: "confirm", Title: strings.TrimSuffix(c.Question, "?"), Data: *c}, nil
	}
}
