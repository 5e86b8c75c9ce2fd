package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/console/mask"
)

// pageTime is how long a page may take.
const pageTime = 10 * time.Second

// mostForm is how many bytes a form may have.
const mostForm = 1 << 20

// request is a request under way.
type request struct {
	*Handler
	*http.Request
	w     http.ResponseWriter
	user  User
	base  string // that all links begin with: "" or "/jobs"
	path  string // below it, escaped
	json  bool   // the JSON form is wanted
	names map[string]string
	now   *snapshot // that the page was made from, if it was

	masked   bool   // the page has arguments that are masked, or were without the wish to see them
	via      string // how it says who asks
	secure   bool   // the browser speaks TLS
	passedOn bool   // some proxy has passed it on
}

// base returns where the dashboard is mounted, and the escaped path below that. A prefix that
// http.StripPrefix has taken away is what the path has lost; one of BasePath is there or is not.
func (h *Handler) base(r *http.Request) (base, path string) {
	path = r.URL.EscapedPath()
	if base = h.options.BasePath; base == "" {
		if sent, err := url.ParseRequestURI(r.RequestURI); err == nil {
			base, _ = strings.CutSuffix(sent.EscapedPath(), path)
			if base == sent.EscapedPath() { // it is not the end of it
				base = ""
			}
		}
		base = strings.TrimRight(base, "/")
		if before := r.Header.Get("X-Forwarded-Prefix"); isBase(before) { // a listed proxy's, see proxies.List
			base = strings.TrimRight(before, "/") + base
		}
	} else if below, ok := strings.CutPrefix(path, base); ok && (below == "" || below[0] == '/') {
		path = below
	}
	if base != "" {
		base = "/" + strings.TrimLeft(base, "/") // two of them were another host
	}
	return base, "/" + strings.TrimLeft(path, "/")
}

// name is a part of the path: of /queues/{name} the name.
func (r *request) name(of string) string { return r.names[of] }

// query is a parameter of the address, without spaces around it.
func (r *request) query(of string) string { return strings.TrimSpace(r.URL.Query().Get(of)) }

// number returns a parameter of the address as a number; 0 if it is none, or negative.
func (r *request) number(of string) int64 {
	return max(integer(r.query(of)), 0)
}

// url is the address of a page: base and segments, escaped.
func (r *request) url(segments ...string) string {
	var b strings.Builder
	b.WriteString(r.base)
	for _, s := range segments {
		b.WriteByte('/')
		s = url.PathEscape(s)
		if cut, ok := strings.CutSuffix(s, ".json"); ok { // a name that ends so, not the JSON form
			s = cut + "%2Ejson"
		}
		b.WriteString(s)
	}
	if len(segments) == 0 {
		b.WriteByte('/')
	}
	return b.String()
}

// addressable reports whether a name can be a segment of an address.
func addressable(name string) bool { return name != "" && name != "." && name != ".." }

// with is the address of this page with other parameters: names and values by turns, "" takes one away.
func (r *request) with(pairs ...string) string {
	query := r.URL.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		query.Del(pairs[i])
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	path := r.base + strings.TrimSuffix(r.path, ".json")
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// can reports whether there is such an address and the user may use it.
func (r *request) can(method, path string) bool { return r.has(method, path, r.user.Role) }

// mask is the masker for what the user sees; nil, which masks nothing, for an admin who has asked for that.
func (r *request) mask() *mask.Masker {
	if r.revealed() {
		return nil
	}
	return r.fleet.Mask
}

// hides notes that something is masked, or were but for the wish to see it.
func (r *request) hides(shown, raw string) {
	var a, b bytes.Buffer
	if shown != raw && (len(raw) > 2*len(shown) || json.Compact(&a, []byte(shown)) != nil || json.Compact(&b, []byte(raw)) != nil || !bytes.Equal(a.Bytes(), b.Bytes())) {
		r.masked = true
	}
}

// revealed reports whether the arguments of this page are shown as they are.
func (r *request) revealed() bool { return r.user.Role >= Admin && r.query("reveal") == "1" }

// job is what a list shows of a job.
func (r *request) job(rec *inspect.JobRecord) job {
	raw, s := rec.Summary(), r.fleet.Mask.Summary(rec)
	r.hides(string(s.Args), string(raw.Args))
	r.hides(s.ErrorMessage, raw.ErrorMessage)
	r.hides(strings.Join(s.Tags, ","), strings.Join(raw.Tags, ","))
	if r.revealed() {
		s = raw
	}
	j := job{
		JID: rec.JID, Class: s.Class, Queue: rec.Queue, Args: s.Args, Tags: s.Tags, ErrorClass: s.ErrorClass, ErrorMessage: s.ErrorMessage,
	}
	if rec.Err != nil {
		j.Fault = rec.Err.Error()
	}
	return j
}

// job is one of a list, see the partial "jobs".
type job struct {
	Key          string          `json:"key,omitempty"`   // what an action names it by
	At           time.Time       `json:"at,omitzero"`     // what that is the list tells
	Score        string          `json:"score,omitempty"` // of an entry whose At is none
	Position     int64           `json:"position,omitempty"`
	JID          string          `json:"jid"`
	Class        string          `json:"class"`
	Queue        string          `json:"queue"`
	Args         json.RawMessage `json:"args"`
	Tags         []string        `json:"tags,omitempty"`
	Try          string          `json:"try,omitempty"` // "2 of 25"
	ErrorClass   string          `json:"error_class,omitempty"`
	ErrorMessage string          `json:"error_message,omitempty"`
	Page         string          `json:"-"`               // the address of its page with where it is; "" without that
	Fault        string          `json:"fault,omitempty"` // why these bytes are no job

	Progress *explain.Progress `json:"progress,omitempty"` // of an iterable job that has begun, and of one that runs and tells it

	told *inspect.Progress
}

// iterates fills in how far those of n jobs have come that are iterable, or have told it.
func (r *request) iterates(n int, at func(int) *job) error {
	jids := make([]string, n)
	for i := range jids {
		jids[i] = at(i).JID
	}
	its, err := r.fleet.Inspector.Iterations(r.Context(), jids...)
	if err != nil {
		return err
	}
	for i := range its {
		j := at(i)
		if j.Progress = explain.ProgressOf(&its[i], j.told, r.mask()); j.Progress != nil && j.Progress.Runs != nil && j.Progress.Cursor != nil {
			r.hides(string(r.fleet.Mask.Args(its[i].Cursor)), string(its[i].Cursor))
		}
	}
	return nil
}

// form reads a parameter of a POST.
func (r *request) form(of string) string {
	if r.Form == nil {
		r.Body = http.MaxBytesReader(r.w, r.Body, mostForm)
		_ = r.ParseForm() // what cannot be read is not there
	}
	return r.PostForm.Get(of)
}

// done is what an action returns. A browser is sent to the page at path, which shows what happened; a
// program gets the same as JSON, with counts if they are not nil.
func (r *request) done(path string, counts any, format string, args ...any) (*page, error) {
	return &page{redirect: path, Data: said{Kind: "ok", Text: fmt.Sprintf(format, args...), Counts: counts}}, nil
}

// undone is done for what was not done, and is no fault: somebody was faster.
func (r *request) undone(path string, counts any, format string, args ...any) (*page, error) {
	return &page{redirect: path, Data: said{Kind: "warning", Text: fmt.Sprintf(format, args...), Counts: counts}}, nil
}

// said is what an action says.
type said struct {
	Kind   string `json:"kind"` // ok or warning
	Text   string `json:"text"`
	Counts any    `json:"counts,omitempty"`

	task  string   // that it is about, for the audit
	begun bool     // it goes on
	did   bool     // it was done, with a warning
	jobs  []string // that it is about, for the audit
}
