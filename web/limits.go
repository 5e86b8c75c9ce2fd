package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	ijob "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/words"
)

// limitsPage is the data of the list of limits.
type limitsPage struct {
	Limits []limitRow `json:"limits"` // those that hold jobs first
	Rules  []ruleRow  `json:"keys"`   // what limits with keys count together, those that hold most first
	More   bool       `json:"more"`   // not all rules were read
	Pager  pager      `json:"-"`      // of Rules
	Only   string     `json:"-"`      // the limit that Rules are of; "" for all
}

// limitRow is a limit with the addresses of what can be done to it.
type limitRow struct {
	Name       string    `json:"name"`
	Queue      string    `json:"queue,omitempty"` // whose limit it is on a Redis Cluster
	Allows     string    `json:"allows"`
	ByHand     bool      `json:"by_hand"`
	Configured string    `json:"configured,omitempty"` // what the configuration says, of one that was set by hand
	Running    int64     `json:"running"`
	Held       int64     `json:"held"`
	Oldest     time.Time `json:"oldest,omitzero"` // enqueued_at of the oldest held job
	Keys       int       `json:"keys"`            // how many of its Rules have one
	Rate       bool      `json:"-"`               // its jobs have no slots while they run
	Missing    bool      `json:"-"`               // it is not defined
	Href       string    `json:"-"`               // of its rules, or of what its one rule holds
	Resting    int       `json:"resting"`         // how many of its Rules rest
	Rests      string    `json:"-"`               // until when the one without a key does
	Rest       string    `json:"-"`               // of one with a breaker that has no keys
	Set, Reset string    `json:"-"`
}

// ruleRow is what a limit counts together.
type ruleRow struct {
	Rule    string    `json:"rule"` // as the user may see it
	Limit   string    `json:"limit"`
	Queue   string    `json:"queue,omitempty"`
	Key     string    `json:"key,omitempty"` // a name of its key in addresses, which tells nothing of it
	Running int64     `json:"running"`
	Held    int64     `json:"held"`
	Oldest  time.Time `json:"oldest,omitzero"`
	Rests   time.Time `json:"rests_until,omitzero"` // when the rest ends, or has ended and waits for a probe
	Href    string    `json:"-"`
	Release string    `json:"-"`
	Rest    string    `json:"-"`
}

// Words tells of its rest.
func (r ruleRow) Words() string { return words.Rests(r.Rests) }

func (r *request) limits() (*page, error) {
	all, more, err := r.fleet.Inspector.Limits(r.Context())
	if err != nil {
		return nil, err
	}
	troubledFirst(all, func(l *inspect.Limit) bool { return l.Held() > 0 })
	p := limitsPage{Limits: make([]limitRow, len(all)), Rules: []ruleRow{}, More: more, Only: r.query("limit")}
	var rules []*inspect.LimitRule
	for i, l := range all {
		p.Limits[i] = r.limitRow(l)
		for _, rule := range l.Rules {
			if rule.Key != "" && (p.Only == "" || p.Only == l.Name) {
				rules = append(rules, rule)
			}
		}
	}
	slices.SortStableFunc(rules, func(a, b *inspect.LimitRule) int {
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(b.Taken, a.Taken))
	})
	from := min(r.number("from"), int64(len(rules)))
	for _, rule := range rules[from:min(from+rows, int64(len(rules)))] {
		p.Rules = append(p.Rules, r.ruleRow(rule))
	}
	p.Pager = r.pager(from, len(p.Rules), int64(len(rules)))
	return &page{Template: "limits", Title: "Limits", Data: p, Next: p.Pager.Next}, nil
}

func (r *request) limitRow(l *inspect.Limit) limitRow {
	named := "?" + url.Values{"limit": {l.Name}}.Encode()
	row := limitRow{
		Name: l.Name, Queue: l.Queue, Allows: l.Allows.String(), ByHand: l.Pinned, Running: l.Taken(), Held: l.Held(), Oldest: l.Oldest(),
		Rate: l.Allows.Every > 0, Missing: !l.Allows.Defined(), Set: r.url("limits", "set") + named, Href: r.ruleURL(&inspect.LimitRule{Name: l.Name, Queue: l.Queue}, "held"),
	}
	if l.Pinned {
		row.Configured, row.Reset = l.Configured.String(), r.url("limits", "reset")+named
	}
	row.Resting = l.Resting()
	for _, rule := range l.Rules {
		switch {
		case rule.Key != "":
			row.Keys++
			row.Href = r.url("limits") + named
		case !rule.Rests.IsZero():
			row.Rests = words.Rests(rule.Rests)
		}
	}
	if l.Allows.Breaker && row.Keys == 0 {
		row.Rest = r.ruleURL(&inspect.LimitRule{Name: l.Name, Queue: l.Queue}, "rest")
	}
	return row
}

func (r *request) ruleRow(rule *inspect.LimitRule) ruleRow {
	return ruleRow{
		Rule: r.ruleText(rule), Limit: rule.Name, Queue: rule.Queue, Key: r.ruleKey(rule), Running: rule.Taken, Held: rule.Held, Oldest: rule.Oldest, Rests: rule.Rests,
		Href: r.ruleURL(rule, "held"), Release: r.ruleURL(rule, "release"), Rest: r.ruleURL(rule, "rest"),
	}
}

// ruleText is a rule as the user may see it.
func (r *request) ruleText(rule *inspect.LimitRule) string {
	raw := rule.Name
	if rule.Key != "" {
		raw += ":" + rule.Key
	}
	r.hides(r.fleet.Mask.Rule(rule.Name, rule.Key), raw)
	return r.mask().Rule(rule.Name, rule.Key)
}

// ruleKey names the key of a rule in addresses; "" of a rule without one.
func (r *request) ruleKey(rule *inspect.LimitRule) string {
	if rule.Key == "" {
		return ""
	}
	return r.digest("limit", []byte(rule.Queue+"\x00"+rule.ID))
}

// ruleQuery are the parameters that name a rule.
func (r *request) ruleQuery(rule *inspect.LimitRule) (out []filterField) {
	for _, f := range [][2]string{{"key", r.ruleKey(rule)}, {"limit", rule.Name}, {"of", rule.Queue}} {
		if f[1] != "" {
			out = append(out, filterField{Name: f[0], Value: f[1]})
		}
	}
	return out
}

// ruleURL is the address of a page about a rule.
func (r *request) ruleURL(rule *inspect.LimitRule, page ...string) string {
	query := url.Values{}
	for _, f := range r.ruleQuery(rule) {
		query.Set(f.Name, f.Value)
	}
	return r.url(append([]string{"limits"}, page...)...) + "?" + query.Encode()
}

// heldBy is the rule that holds a job.
func (r *request) heldBy(e *inspect.SortedEntry) *inspect.LimitRule {
	rule := &inspect.LimitRule{ID: e.Held.Rule}
	name, key, _ := strings.Cut(rule.ID, ":")
	if rule.Name, rule.Key = ijob.NameOfRule(name), key; redisconn.OnCluster(r.options.Redis) {
		rule.Queue = e.Queue
	}
	return rule
}

// rule is the one of the address, with its limit.
func (r *request) rule() (*inspect.Limit, *inspect.LimitRule, error) {
	name, queue, key := r.query("limit"), r.query("of"), r.query("key")
	id := ijob.RuleName(name)
	if name == "" {
		return nil, nil, wrong("Use a link of the page of limits.", "Got no limit, expected the name of one.")
	}
	if key != "" {
		rule, err := r.keyed(name, key)
		if err != nil {
			return nil, nil, err
		}
		id = rule.ID
	}
	all, err := r.fleet.Inspector.LimitRule(r.Context(), id)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range all {
		if l.Queue == queue && len(l.Rules) > 0 {
			return l, l.Rules[0], nil
		}
	}
	return nil, nil, notFound("There is no limit %q of the queue %q.", name, queue)
}

// keyed finds a rule by what ruleKey calls it: most that are asked for hold jobs.
func (r *request) keyed(name, key string) (*inspect.LimitRule, error) {
	for rule, err := range r.fleet.Inspector.HeldRules(r.Context()) {
		if err != nil {
			return nil, err
		}
		if rule.Name == name && r.ruleKey(rule) == key {
			return rule, nil
		}
	}
	all, _, err := r.fleet.Inspector.Limit(r.Context(), name)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		for _, rule := range l.Rules {
			if r.ruleKey(rule) == key {
				return rule, nil
			}
		}
	}
	return nil, notFound("The limit %q has no jobs of that key, neither running nor held.", name)
}
