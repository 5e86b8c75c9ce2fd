package web

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/console/audit"
	"github.com/troupehq/troupe/internal/words"
)

const (
	auditTime    = 2 * time.Second // that Redis may take
	mostForms    = 20              // values of a form that are kept
	mostValue    = 200             // bytes of one
	revealEvery  = 10 * time.Minute
	mostRevealed = 1000
)

// audit tells who has done what, or tried to: the log, and the list in Redis. An answer that only asks
// again is none of that.
func (r *request) audit(rt *route, p *page, err error) {
	s, ok := said{Kind: "failed"}, true
	if err != nil {
		f := faultOf(err)
		if s.Text = f.Text; f.Status < http.StatusInternalServerError {
			s.Kind = "refused"
		}
	} else if p != nil {
		s, ok = p.Data.(said)
	}
	if !ok {
		return
	}
	e := &audit.Entry{
		At: time.Now().UTC(), User: r.user.Name, Role: r.user.Role.String(), Address: r.RemoteAddr, Task: s.task,
		Action: rt.path, Path: words.Short(r.path, 2*mostValue), Outcome: s.Kind, Text: words.Short(s.Text, 2*mostValue),
	}
	if !rt.session { // what is typed as a name may be a password
		e.Filter = r.filled()
	}
	if s.Kind == "ok" || s.did {
		e.Outcome = "done"
	}
	if s.begun {
		e.Outcome = "begun"
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		e.Address = host
	}
	if err == nil {
		e.Counts, _ = json.Marshal(s.Counts) // plain data
	}
	e.Jobs = s.jobs[:min(len(s.jobs), audit.MostJobs)]
	if missing := r.record(r.Context(), e); missing != nil && err == nil {
		s.Text += " This is not in the audit: " + missing.Error() + "."
		p.Data = s
	}
}

// filled is what a form or an address has said.
func (r *request) filled() map[string]string {
	out := map[string]string{}
	r.form("")
	for name, values := range r.Form {
		if len(out) >= mostForms || name == "back" || name == "key" && len(values) > 0 && strings.HasSuffix(r.path, "/ticked") || strings.Join(values, "") == "" {
			continue
		}
		text := words.Short(r.fleet.Mask.Typed(name, values[0], r.searchesArgs()), mostValue)
		if len(values) > 1 {
			text = strconv.Itoa(len(values)) + " values"
		}
		out[words.Short(name, mostValue)] = text
	}
	return out
}

// record writes an entry to the log and to Redis, after the deed: a Redis that takes no entry refuses
// nothing.
func (h *Handler) record(ctx context.Context, e *audit.Entry) error {
	level := zerolog.InfoLevel
	if e.Outcome == "refused" || e.Outcome == "failed" {
		level = zerolog.WarnLevel
	}
	h.options.Logger.WithLevel(level).Str("user", e.User).Str("role", e.Role).Str("address", e.Address).Str("action", e.Action).Str("target", e.Path).
		Interface("filter", e.Filter).Str("outcome", e.Outcome).Str("said", e.Text).Interface("counts", e.Counts).Msg("dashboard action")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer cancel()
	err := audit.Add(ctx, h.options.Redis, e, e.Role == Role(0).String())
	if err != nil {
		h.options.Logger.Error().Err(err).Msg("dashboard action not in the audit of Redis")
	}
	return err
}

// auditReveal tells that somebody looks at arguments as they are: not each time that the page
// is renewed.
func (r *request) auditReveal(rt *route) {
	name := r.user.Name + " " + r.with()
	r.revealMu.Lock()
	if len(r.reveals) > mostRevealed {
		clear(r.reveals)
	}
	fresh := time.Since(r.reveals[name]) > revealEvery
	if fresh {
		r.reveals[name] = time.Now()
	}
	r.revealMu.Unlock()
	if fresh {
		r.audit(&route{path: "reveal " + rt.path}, &page{Data: said{Kind: "ok", Text: "Arguments were shown as they are."}}, nil)
	}
}

// auditPage is the data of the page of who did what.
type auditPage struct {
	Entries []auditRow `json:"entries"`
	Filter  filterBar  `json:"-"`
	Pager   pager      `json:"-"`
}

// auditRow is an entry with the address of the queue, job or process that it is about.
type auditRow struct {
	audit.Entry
	Href   string      `json:"-"`
	JobRef [][2]string `json:"-"` // id and address of each of the jobs
}

// about is the address of what an entry is about; "" if that has no page, or the user may not see it.
func (r *request) about(e *audit.Entry) string {
	parts := strings.Split(strings.TrimSuffix(e.Path, ".json"), "/")
	if len(parts) < 2 {
		return ""
	}
	for _, k := range setKinds {
		if parts[1] == k.Path {
			return r.link("/"+k.Path, k.Path)
		}
	}
	if len(parts) < 3 {
		return ""
	}
	name, err := url.PathUnescape(parts[2])
	if err != nil || name == "" {
		return ""
	}
	switch whole := len(parts) > 3 || strings.Contains(e.Action, "{"); {
	case !whole: // of all processes
	case parts[1] == "queues":
		return r.link("/queues/{name}", "queues", name)
	case parts[1] == "periodic":
		if href := r.link("/periodic/{name}", "periodic", name); href != "" {
			return href + "?" + url.Values{"namespace": {e.Filter["namespace"]}}.Encode()
		}
	case parts[1] == "batches":
		return r.link("/batches/{id}", "batches", name)
	case parts[1] == "jobs":
		return r.link("/jobs/{jid}", "jobs", name)
	case parts[1] == "processes", parts[1] == "tree":
		return r.link("/tree/{id}", "tree", name)
	}
	return ""
}

func (r *request) auditList() (*page, error) {
	all, err := audit.All(r.Context(), r.options.Redis)
	if err != nil {
		return nil, err
	}
	chosen := audit.Filter{User: r.query("user"), Part: r.query("action"), Outcome: r.query("outcome")}
	all = slices.DeleteFunc(all, func(e audit.Entry) bool { return !chosen.Match(&e) })
	from := min(r.number("from"), int64(len(all)))
	shown := all[from:min(from+rows, int64(len(all)))]
	p := auditPage{Entries: make([]auditRow, len(shown)), Pager: r.pager(from, len(shown), int64(len(all))), Filter: filterBar{Action: r.url("audit"), Fields: []filterField{
		{"user", "User", r.query("user"), "ann"}, {"action", "What: a part of it", r.query("action"), "pause, a job, a class"}, {"outcome", "Outcome", r.query("outcome"), "refused"},
	}}}
	for i := range shown {
		p.Entries[i] = auditRow{Entry: shown[i], Href: r.about(&shown[i])}
		for _, jid := range shown[i].Jobs {
			p.Entries[i].JobRef = append(p.Entries[i].JobRef, [2]string{jid, r.atDeath(jid, shown[i].At)})
		}
	}
	return &page{Template: "audit", Title: "Audit", Data: p, Next: p.Pager.Next}, nil
}
