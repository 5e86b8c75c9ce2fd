package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/words"
)

// A search looks at so many jobs at most, and for so long.
const (
	mostSearched = 100_000
	searchTime   = 2 * time.Second
)

// searchesArgs reports whether the user may search in arguments. A user for whom they are masked may not.
func (r *request) searchesArgs() bool { return r.user.Role >= Admin || r.options.Args == mask.Show }

// searched is the masker for texts before a search of the user; nil masks nothing.
func (r *request) searched() *mask.Masker {
	if r.searchesArgs() {
		return nil
	}
	return r.fleet.Mask
}

// searchedArgs are the arguments that the user may look for texts in.
func (r *request) searchedArgs() func(*inspect.JobRecord, *inspect.JobSummary) json.RawMessage {
	if r.searchesArgs() {
		return bulk.AllArgs
	}
	return nil
}

// filterNames are the parameters of a filter.
var filterNames = []string{"q", "class", "queue", "error", "tag", "from", "to", "failed_from", "failed_to"}

// filter reads the filter of an address for a set. A time span reaches back from now, but that of
// from and to ahead in a list of what is due.
func (r *request) filter(get func(string) string, k setKind) (f bulk.Filter, err error) {
	f = bulk.Filter{Text: get("q"), Args: r.searchedArgs(), Mask: r.searched(), Class: get("class"), Queue: get("queue"), Error: get("error"), Tag: get("tag"), When: strings.ToLower(k.When)}
	for name, to := range timesOf(&f) {
		if text := get(name); text != "" {
			parse := bulk.ParseTime
			if k.ahead() && (name == "from" || name == "to") {
				parse = bulk.ParseFuture
			}
			if *to, err = parse(text, time.Now()); err != nil {
				return f, wrong("Write it so, or leave it out.", "The time %s: %v.", name, err)
			}
		}
	}
	return f, nil
}

// timesOf returns the times of a filter, by the names of their parameters.
func timesOf(f *bulk.Filter) map[string]*time.Time {
	return map[string]*time.Time{"from": &f.Since, "to": &f.Until, "failed_from": &f.FailedSince, "failed_to": &f.FailedUntil}
}

// fields is the bar of a filter.
func (r *request) fields(k setKind) filterBar {
	what, from := "class, id, error", "1h: an hour ago"
	if r.searchesArgs() {
		what += ", arguments"
	}
	if k.ahead() {
		from = "1h: in an hour"
	}
	bar := filterBar{Action: r.urlOf(k)}
	if k.Rule != nil {
		bar.Hidden = r.ruleQuery(k.Rule)
	}
	for _, span := range k.Spans {
		bar.Spans = append(bar.Spans, doAll{span[0], r.with("from", span[1], "to", span[2], "failed_from", span[3], "failed_to", "", "after", "", "n", "", "seen", "")})
	}
	for _, f := range [][3]string{{"q", "Text", what}, {"class", "Class", "whole name"}, {"queue", "Queue", ""}, {"error", "Error", "part of it"}, {"tag", "Tag", ""}, {"failed_from", "Failed from", "1h: an hour ago"}, {"failed_to", "Failed until", "2026-11-21T15:04:05Z"}, {"from", k.When + " from", from}, {"to", k.When + " until", "2026-11-21T15:04:05Z"}} {
		if k.Queue != "" && f[0] == "queue" || k.Name == "scheduled" && slices.Contains([]string{"error", "failed_from", "failed_to"}, f[0]) {
			continue
		}
		bar.Fields = append(bar.Fields, filterField{f[0], f[1], r.query(f[0]), f[2]})
	}
	return bar
}

// entryKeys find the entries that pages name.
func (r *request) entryKeys() bulk.Keys { return bulk.Keys{Redis: r.options.Redis, Digest: r.digest} }

// walk goes through the entries of a set or a queue that a filter matches, in the order of its page, after
// the entry with the key after, until do returns false.
func (r *request) walk(k setKind, f *bulk.Filter, after string, most int, long time.Duration, do func(bulk.Entry, bulk.Key) bool) (bulk.Walked, error) {
	w, err := r.entryKeys().Walk(r.Context(), bulk.Walk{Set: r.setOf(k), Queue: r.queueOf(k), Up: k.Up, Filter: f, After: after, Most: most, Long: long}, do)
	if errors.Is(err, bulk.ErrKey) {
		err = wrong("Begin with the first page.", "Got the key %q, expected one of a link.", after)
	}
	return w, err
}

// setPage is the data of the page of a set.
type setPage struct {
	Set      string    `json:"set"`
	Total    int64     `json:"total"`              // entries of the set
	Searched int       `json:"searched,omitempty"` // with a filter
	Filter   string    `json:"filter,omitempty"`   // in words
	Jobs     []job     `json:"jobs"`
	Kind     setKind   `json:"-"`
	Bar      filterBar `json:"-"`
	Pager    pager     `json:"-"`
	Chosen   string    `json:"-"` // the filter as parameters
	Export   string    `json:"-"` // address
	All      []doAll   `json:"-"`
	Tick     string    `json:"-"` // the address for ticked rows
	Choices  string    `json:"-"` // the words of All
	Order    string    `json:"-"` // of Jobs
	Found    string    `json:"-"` // how many the filter chooses, once that is known
	Wrong    *fault    `json:"-"` // what is wrong with the filter

	Rule *rulePage `json:"rule,omitempty"` // of held jobs
}

// doAll leads to the preview of an action, or to a span of time.
type doAll struct{ Do, Href string }

func (r *request) set(k setKind) (*page, error) {
	f, wrong := r.filter(r.query, k)
	if wrong != nil && r.wantsJSON() {
		return nil, wrong
	}
	p := setPage{Set: k.Name, Filter: f.String(), Jobs: []job{}, Kind: k, Bar: r.fields(k), Chosen: chosen(r.query), Choices: k.choices(), Tick: r.urlOf(k, "ticked")}
	switch p.Order = "the next one due first"; {
	case k.Rule != nil:
		p.Order = "the next one to be let in first"
	case !k.Up:
		p.Order = "the last one first"
	}
	var err error
	if p.Total, err = r.setOf(k).Size(r.Context()); err != nil {
		return nil, err
	}
	if wrong != nil {
		p.Wrong = faultOf(wrong)
		return &page{Template: "set", Title: k.Title, Data: p, Status: p.Wrong.Status}, nil
	}
	p.Export, p.All = r.ofAll(k, p.Chosen)
	w, err := r.walk(k, &f, r.query("after"), mostSearched, searchTime, func(e bulk.Entry, at bulk.Key) bool {
		if len(p.Jobs) == rows {
			return false
		}
		p.Jobs = append(p.Jobs, r.entry(e, at))
		return true
	})
	if err == nil {
		err = r.iterates(len(p.Jobs), func(i int) *job { return &p.Jobs[i] })
	}
	if err != nil {
		return nil, err
	}
	out := &page{Template: "set", Title: k.Title}
	shown := r.number("n")
	found := shown + int64(len(p.Jobs))
	p.Pager = pager{From: min(shown+1, found), To: found}
	if shown > 0 || r.query("after") != "" {
		p.Pager.First = r.with("after", "", "n", "", "seen", "")
	}
	seen := r.number("seen") + int64(w.Looked)
	if at := w.Next; at != "" {
		p.Pager.Next = r.with("after", at, "n", strconv.FormatInt(found, 10), "seen", strconv.FormatInt(seen, 10))
		if len(p.Jobs) < rows {
			out.Partial = fmt.Sprintf("Searched %s of %s entries and found %s so far.", words.Count(seen), words.Count(p.Total), words.Count(found))
		}
	}
	if p.Filter == "" {
		out.Topic, p.Pager.Total = "sets", p.Total
	} else if p.Searched = w.Looked; w.Next == "" && (shown > 0 || r.query("after") == "") {
		p.Found = words.Count(found)
	}
	out.Data, out.Next = p, p.Pager.Next
	return out, nil
}

// ofAll are the addresses of the export, "" where there is none, and of the actions, for all that a filter chooses.
func (r *request) ofAll(k setKind, chosen string) (export string, all []doAll) {
	for _, a := range bulk.Actions {
		if k.Allows(a.Name) {
			all = append(all, doAll{a.Name, queried(r.urlOf(k, "all"), "do="+a.Name, chosen)})
		}
	}
	if k.Rule == nil {
		export = queried(r.urlOf(k, "export"), chosen)
	}
	return export, all
}

// queried is an address with more parameters.
func queried(address string, more ...string) string {
	for _, text := range more {
		switch {
		case text == "":
		case strings.Contains(address, "?"):
			address += "&" + text
		default:
			address += "?" + text
		}
	}
	return address
}

// chosen is the filter of an address or a form as parameters.
func chosen(get func(string) string) string {
	v := url.Values{}
	for _, name := range filterNames {
		if text := get(name); text != "" {
			v.Set(name, text)
		}
	}
	return v.Encode()
}

// entry is what a list shows of an entry.
func (r *request) entry(of bulk.Entry, at bulk.Key) job {
	j := r.job(of.Record())
	j.Key, j.At, j.Try = at.String(), of.When(), tries(of.Record().Payload)
	if q := of.Queued; q != nil {
		j.Position = at.Position()
		j.Page = r.atPosition(j.JID, q.Queue, j.Position)
		return j
	}
	e := of.Sorted
	if e.At.IsZero() {
		j.Score = strings.TrimPrefix(scores.Words(e.Score), "score ")
	}
	if e.Held != nil {
		j.At = e.At
	}
	for name := range setKinds {
		if r.setOf(setKinds[name]).Name == e.Set.Name {
			j.Page = r.seenAt(e.JID, name, "score", scores.Format(e.Score))
		}
	}
	return j
}

// defaultRetries is what a job gets that says only that it is to be retried.
const defaultRetries = 25

// tries are the failed runs of a job and how many it may have; "" if it never failed.
func tries(p *troupe.Payload) string {
	n := p.Failures()
	if n == 0 {
		return ""
	}
	most := int64(defaultRetries)
	if limit, ok := p.Int("retry"); ok {
		most = limit
	} else if raw, _ := p.Get("retry"); string(raw) == "false" {
		most = 0
	}
	return fmt.Sprintf("%d of %d", n, uint64(max(most, 0))+1)
}
