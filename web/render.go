package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/words"
)

// page is what a page function returns.
type page struct {
	Template string // templates/NAME.html
	Title    string
	Data     any    // for the template and the JSON form alike
	Topic    string // what the page is renewed at, see topics; "" for never
	Next     string // address of the next part of a list; "" if this is the last
	Partial  string // why this is not all: "searched 100,000 of 250,000"
	Status   int    // of the answer as HTML; 0 is 200
	Refresh  int    // seconds after which browsers load it again, as far as they run no script; 0 is never

	redirect string
	raw      bool // Data is the whole answer, as JSON
}

// fault is an error with a sentence for people.
type fault struct {
	Status int    `json:"status"`
	Text   string `json:"text"`             // what is so
	Do     string `json:"do,omitempty"`     // what to do
	Events string `json:"events,omitempty"` // the address of the events about it
}

func (f *fault) Error() string { return f.Text }

// notFound is a fault for what is not there.
func notFound(format string, args ...any) error {
	return &fault{Status: http.StatusNotFound, Text: fmt.Sprintf(format, args...), Do: "It may be done and gone by now. Go back, or search for it."}
}

// wrong is a fault of the request: what is wrong with it, and what was expected.
func wrong(do, format string, args ...any) error {
	return &fault{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...), Do: do}
}

// faultOf says an error to people.
func faultOf(err error) *fault {
	var f *fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, inspect.ErrNotFound):
		return &fault{Status: http.StatusNotFound, Text: "It is not there: " + err.Error() + ".", Do: "It may be done and gone by now. Go back, or search for it."}
	case errors.Is(err, inspect.ErrEmbedded):
		return &fault{Status: http.StatusConflict, Text: "This process is a part of another program: " + err.Error() + ".", Do: "Quiet and stop that program."}
	case errors.Is(err, context.DeadlineExceeded):
		return &fault{Status: http.StatusGatewayTimeout, Text: "Redis did not answer in time.", Do: "Try again. If it stays so, see whether Redis is overloaded: troupe doctor."}
	}
	if r, ok := redisconn.Refused(err); ok {
		return &fault{Status: http.StatusServiceUnavailable, Text: "Redis refuses this: " + r.Text + ": " + err.Error() + ".", Do: r.Do}
	}
	if redisconn.Classify(err) == redisconn.Outage {
		return &fault{Status: http.StatusServiceUnavailable, Text: "Redis does not answer: " + err.Error() + ".", Do: "See whether it runs and can be reached from here. Jobs in progress go on; this page comes back by itself."}
	}
	return &fault{Status: http.StatusInternalServerError, Text: "This did not work: " + err.Error() + ".", Do: "Try again. If it stays so, troupe doctor says more."}
}

// jsonPage is the JSON of a page.
type jsonPage struct {
	At      time.Time `json:"at"`
	Data    any       `json:"data"`
	Next    string    `json:"next,omitempty"`
	Partial string    `json:"partial,omitempty"`
}

// wantsJSON reports whether the JSON form is wanted.
func (r *request) wantsJSON() bool {
	accept := r.Header.Get("Accept")
	return r.json || strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// render answers with a page.
func (r *request) render(p *page) {
	switch said, ok := p.Data.(said); {
	case p.raw:
		r.writeJSON(http.StatusOK, p.Data)
	case r.wantsJSON():
		r.writeJSON(http.StatusOK, jsonPage{r.at(), p.Data, p.Next, p.Partial})
	case p.redirect != "":
		if !isLocal(p.redirect) {
			p.redirect = r.url()
		}
		if ok {
			r.setFlash(said)
		}
		r.w.Header().Set("Location", p.redirect)
		r.w.WriteHeader(http.StatusSeeOther)
	default:
		r.writeHTML(cmp.Or(p.Status, http.StatusOK), p)
	}
}

// fail answers with what went wrong.
func (r *request) fail(err error) {
	f := faultOf(err)
	if f.Status >= http.StatusInternalServerError {
		r.options.Logger.Warn().Err(err).Str("path", r.path).Msg("dashboard page failed")
	}
	if f.Status == http.StatusUnauthorized {
		r.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if r.wantsJSON() {
		r.writeJSON(f.Status, map[string]any{"at": r.at(), "error": f})
		return
	}
	if f.Status == http.StatusUnauthorized && r.users != nil {
		next := r.form("next")
		if r.Method == http.MethodGet {
			next = r.with()
		}
		text := f.Text
		if f == errNobody {
			text = ""
		}
		r.writeHTML(f.Status, r.logInPage(next, text))
		return
	}
	r.writeHTML(f.Status, &page{Template: "fault", Title: http.StatusText(f.Status), Data: f})
}

// at is the time that the data is of.
func (r *request) at() time.Time {
	if r.now != nil {
		return r.now.At
	}
	return time.Now()
}

func (r *request) writeJSON(status int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // arguments stay byte by byte; it is no HTML
	if err := e.Encode(v); err != nil {
		r.options.Logger.Error().Err(err).Str("path", r.path).Msg("dashboard JSON failed")
		status, b = http.StatusInternalServerError, *bytes.NewBufferString(`{"error":{"status":500,"text":"This cannot be said in JSON."}}`)
	}
	r.answer(status, "application/json", b.Bytes())
}

// answer sends a whole answer. What http.Error takes away of the headers stays.
func (r *request) answer(status int, kind string, text []byte) {
	r.w.Header().Set("Content-Type", kind+"; charset=utf-8")
	r.w.WriteHeader(status)
	_, _ = r.w.Write(text)
}

func (r *request) writeHTML(status int, p *page) {
	v := &view{r: r, page: *p}
	for _, i := range navigation {
		if r.can(http.MethodGet, i.Path) {
			below := strings.TrimSuffix(i.Path, "/") + "/"
			i.Now = r.path == i.Path || i.Path != "/" && strings.HasPrefix(r.path, below)
			v.Nav = append(v.Nav, i)
		}
	}
	if v.Flash = r.flash(); len(v.Nav) > 0 {
		v.seen = r.sampler.soon(r.Context())
	}
	var b bytes.Buffer
	if err := r.templates[p.Template].ExecuteTemplate(&b, "layout", v); err != nil {
		r.options.Logger.Error().Err(err).Str("path", r.path).Msg("dashboard template failed")
		r.answer(http.StatusInternalServerError, "text/plain", []byte("This page cannot be shown; the log says why.\n"))
		return
	}
	r.answer(status, "text/html", b.Bytes())
}

// view is what a template gets.
type view struct {
	page
	r     *request
	Nav   []item
	Flash *said
	seen  *snapshot // by the sampler; nil for nothing yet
}

// With is the view with other data, for a partial.
func (v *view) With(data any) *view {
	w := *v
	w.Data = data
	return &w
}

// URL is the address of a page: {{$.URL "queues" .Name}}.
func (v *view) URL(segments ...string) string { return v.r.url(segments...) }

// To is a link to the page of the thing with this name. At most most bytes of the name are shown. There
// is no link without a name, and none for . and .., which an address cannot have.
func (v *view) To(page, name string, most int) template.HTML {
	switch {
	case name == "":
		return `<span class="muted">none</span>`
	case !addressable(name) || !v.Can(http.MethodGet, pageOf[page]):
		return template.HTML(template.HTMLEscapeString(words.Short(name, most))) //nolint:gosec // escaped
	}
	return template.HTML(fmt.Sprintf(`<a href="%s">%s</a>`, template.HTMLEscapeString(v.r.url(page, name)), template.HTMLEscapeString(words.Short(name, most)))) //nolint:gosec // escaped
}

// pageOf are the routes of things that have a name.
var pageOf = map[string]string{"queues": "/queues/{name}", "classes": "/classes/{class}", "jobs": "/jobs/{jid}"}

// Set is the address of this page with other parameters: {{$.Set "after" "100"}}.
func (v *view) Set(pairs ...string) string { return v.r.with(pairs...) }

// Query is a parameter of the address.
func (v *view) Query(of string) string { return v.r.query(of) }

// Can reports whether the user may use an address: {{if $.Can "POST" "/queues/{name}/pause"}}.
func (v *view) Can(method, path string) bool { return v.r.can(method, path) }

// Asset is the address of a static file.
func (v *view) Asset(name string) string { return v.r.base + assets()[name].address }

// User is who asks.
func (v *view) User() User { return v.r.user }

// SignedIn reports whether the user can sign out.
func (v *view) SignedIn() bool { return v.r.via == viaSession }

// Revealed reports whether arguments are shown as they are.
func (v *view) Revealed() bool { return v.r.revealed() }

// CanReveal reports whether the page has arguments that are masked, or would be without a reveal, and
// the user may see them unmasked.
func (v *view) CanReveal() bool { return v.r.user.Role >= Admin && v.r.masked }

// At is the time at which the data was read.
func (v *view) At() time.Time { return v.r.at() }

// ReadOnly reports whether nothing can be changed here.
func (v *view) ReadOnly() bool { return v.r.options.ReadOnly }

// Version is that of troupe.
func (v *view) Version() string { return beat.Version }

// Link is the address of a page without names; "" if there is none, or the user may not see it.
func (v *view) Link(path string) string { return v.r.link(path) }

// JSON is the address of the JSON of this page.
func (v *view) JSON() string {
	address, query, ok := strings.Cut(v.r.with(), "?")
	if strings.HasSuffix(address, "/") {
		address += "index"
	}
	if address += ".json"; ok {
		address += "?" + query
	}
	return address
}

// Number is what the navigation says beside a page, of the last look; "" if it has none, or nobody has
// seen anything yet.
func (v *view) Number(path string) string {
	s := v.seen
	if s == nil || s.At.IsZero() {
		return ""
	}
	n, ok := map[string]int64{
		"/queues": s.Stats.Enqueued, "/running": s.Stats.WorkersSize, "/retries": s.Stats.RetrySize, "/scheduled": s.Stats.ScheduledSize, "/dead": s.Stats.DeadSize, "/limits": s.Stats.HeldSize,
		"/processes": int64(fleet.CountAll(s.Processes).Live),
	}[path]
	if !ok {
		return ""
	}
	return words.Count(n)
}

// filterBar is the data of the partial "filter".
type filterBar struct {
	Action string // the address without a filter
	Fields []filterField
	Hidden []filterField // parameters that stay
	Spans  []doAll
	Tick   filterField // a box, whose Hint is the value that it sends; none without a name
}

// filterField is one field.
type filterField struct{ Name, Label, Value, Hint string }

// Active reports whether anything is filtered.
func (f filterBar) Active() bool {
	return f.Tick.Value != "" || slices.ContainsFunc(f.Fields, func(f filterField) bool { return f.Value != "" })
}
