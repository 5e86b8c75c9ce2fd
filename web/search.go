package web

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/words"
)

// shownEach is how many jobs of a place a search shows.
const shownEach = 10

// found is the data of a search.
type found struct {
	Query    string       `json:"query"`
	Searched int          `json:"searched"`
	Places   []foundPlace `json:"places"`           // those that have any
	Unread   []string     `json:"unread,omitempty"` // places that are no lists or sets of jobs, but something else
	Where    string       `json:"-"`                // what is looked at, for people
	Later    bool         `json:"-"`                // other parts were searched before
}

// foundPlace is what was found in one place.
type foundPlace struct {
	Place string `json:"place"` // as explain names it
	Count int    `json:"count"`
	Jobs  []job  `json:"jobs"` // the first of them
	Title string `json:"-"`
	Href  string `json:"-"` // of all of them, or of the place
	When  string `json:"-"`
}

// jidForm is the form of ids that Sidekiq gives, and that troupe does.
var jidForm = regexp.MustCompile(`^[0-9a-f]{24}$`)

// Caption is that of its table.
func (p foundPlace) Caption() string {
	if p.Count > len(p.Jobs) {
		return fmt.Sprintf("The first %d of %s", len(p.Jobs), words.Count(p.Count))
	}
	return words.Plural(p.Count, "job")
}

// hunt is one search of all places where jobs are.
type hunt struct {
	r      *request
	filter bulk.Filter
	began  time.Time
	left   int                           // entries that may still be read
	rules  map[string]*inspect.LimitRule // those that hold jobs, by their places
	out    found
	next   string // the place and the position in it to go on from; "" at the end
}

func (r *request) search() (*page, error) {
	q := r.query("q")
	if jidForm.MatchString(q) {
		return &page{redirect: r.url("jobs", q), Data: found{Query: q, Places: []foundPlace{}}}, nil
	}
	h := &hunt{
		r: r, filter: bulk.Filter{Text: q, Args: r.searchedArgs(), Mask: r.searched()}, began: time.Now(), left: mostSearched,
		out: found{Query: q, Places: []foundPlace{}, Where: "class, id and error", Later: r.query("at") != ""},
	}
	if r.searchesArgs() {
		h.out.Where = "class, id, error and arguments"
	}
	p := &page{Template: "search", Title: "Search"}
	if q != "" {
		p.Title = "Search: " + words.Short(q, 60)
		if err := h.run(r.query("at")); err != nil {
			return nil, err
		}
	}
	if h.next != "" {
		place, _, _ := strings.Cut(h.next, "|")
		if strings.HasPrefix(place, heldPlace) {
			place = "the jobs that limits hold"
		}
		p.Next = r.with("at", h.next)
		p.Partial = fmt.Sprintf("Searched %s jobs in this part, as far as into %s.", words.Count(h.out.Searched), place)
	}
	p.Data = h.out
	return p, nil
}

// run searches all places, from that of h.next on.
func (h *hunt) run(at string) error {
	begin, inside, _ := strings.Cut(at, "|")
	places := []string{"running", "retry", "scheduled", "dead"}
	queues, err := h.r.fleet.Inspector.Queues(h.r.Context())
	if err != nil {
		return err
	}
	for _, q := range queues {
		places = append(places, "queue:"+q.Name)
	}
	held, err := h.held()
	if err != nil {
		return err
	}
	for _, name := range append(places, held...) {
		if strings.HasPrefix(begin, heldPlace) && strings.HasPrefix(name, heldPlace) && name > begin {
			begin, inside = "", "" // that rule holds nothing any more
		}
		if begin != "" && begin != name {
			continue
		}
		if begin == "" && h.remaining() <= 0 { // what one reading of a place takes is not bounded
			h.next = name + "|"
			return nil
		}
		rest, err := h.place(name, inside)
		if err != nil {
			return err
		}
		if begin, inside = "", ""; rest != "" {
			h.next = name + "|" + rest
			return nil
		}
	}
	return nil
}

// heldPlace begins the names of the places of jobs that limits hold.
const heldPlace = "held:"

// held are the places of jobs that limits hold, in order: their names tell nothing of the keys.
func (h *hunt) held() (places []string, err error) {
	h.rules = map[string]*inspect.LimitRule{}
	for rule, err := range h.r.fleet.Inspector.HeldRules(h.r.Context()) {
		if err != nil {
			return nil, err
		}
		h.rules[heldPlace+h.r.digest("limit", []byte(rule.Queue+"\x00"+rule.ID))] = rule
	}
	return slices.Sorted(maps.Keys(h.rules)), nil
}

// place searches one place, and returns the position in it to go on from; "" at its end.
func (h *hunt) place(name, inside string) (rest string, err error) {
	p := foundPlace{Place: name}
	add := func(j func() job) {
		if p.Count++; len(p.Jobs) < shownEach {
			p.Jobs = append(p.Jobs, j())
		}
	}
	k, listed := kindOf(name)
	if rule := h.rules[name]; rule != nil {
		k, listed, p.Place = h.r.ruleKind(rule), true, bulk.Held
	}
	switch {
	case listed:
		p.Title, p.Href, p.When = k.Title, queried(h.r.urlOf(k), "q="+url.QueryEscape(h.out.Query)), k.When
		var w bulk.Walked
		w, err = h.r.walk(k, &h.filter, inside, h.left, h.remaining(), func(e bulk.Entry, at bulk.Key) bool {
			add(func() job { return h.r.entry(e, at) })
			return true
		})
		h.looked(w.Looked)
		rest = w.Next
	default:
		p.Title, p.Href, p.When = "Running", h.r.url("running"), "Since"
		seen, fail := h.r.running()
		for _, w := range seen.list {
			if h.filter.Match(&w.Job, w.RunAt) {
				add(func() job { j := h.r.job(&w.Job); j.At, j.Queue, j.told = w.RunAt, w.Queue, w.Progress; return j })
			}
		}
		h.looked(len(seen.list))
		err = fail
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") { // the others are searched all the same
		h.out.Unread = append(h.out.Unread, name)
		return "", nil
	}
	if err == nil {
		err = h.r.iterates(len(p.Jobs), func(i int) *job { return &p.Jobs[i] })
	}
	if p.Count > 0 {
		h.out.Places = append(h.out.Places, p)
	}
	return rest, err
}

func (h *hunt) remaining() time.Duration { return searchTime - time.Since(h.began) }

func (h *hunt) looked(n int) { h.out.Searched, h.left = h.out.Searched+n, h.left-n }
