package web

import (
	"cmp"
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/console/mask"
	"github.com/troupehq/troupe/internal/scores"
)

// jobPage is the data of the page of a job.
type jobPage struct {
	*explain.Explanation
	Since     time.Time       `json:"when,omitzero"` // due, of death, since when it waits or runs
	Payload   json.RawMessage `json:"payload,omitempty"`
	Process   string          `json:"process,omitempty"`      // that runs it
	Stuck     *unended        `json:"unresponsive,omitempty"` // how, if it is
	Summary   job             `json:"-"`
	Tree      string          `json:"-"` // the address of the process
	Fields    []field         `json:"-"`
	Backtrace []string        `json:"-"`
	Heading   string          `json:"-"` // of Since
	Where     string          `json:"-"` // the place for people
	Href      string          `json:"-"` // of the place
	Acts      jobActs         `json:"-"`
	Clock     string          `json:"-"` // the address of the periodic job that has pushed it
	ByJob     string          `json:"-"` // the address of the job that has pushed it with its ack
	InBatch   string          `json:"-"` // the address of its batch
	Calls     string          `json:"-"` // the address of the batch whose callback it is
	Events    string          `json:"-"` // about a process, where the id looks like one
}

// field is one of a payload.
type field struct {
	Name, Text string
	At         time.Time // if it is one
}

// jobActs are the actions that a place allows: the set of the key, or the queue.
type jobActs struct {
	Set    *setKind
	Post   string // the address for it
	Queue  string
	Key    string
	Cancel bool
}

// mostBacktrace is how many lines of a backtrace are shown.
const mostBacktrace = 200

func (r *request) jobPage() (*page, error) {
	jid := r.name("jid")
	if _, err := r.refreshed(); err != nil {
		return nil, err
	}
	x, err := explain.Job(r.Context(), r.options.Redis, jid, r.mask(), r.near()...)
	if err != nil {
		return nil, err
	}
	p := jobPage{Explanation: x, Since: x.When}
	p.place(r)
	if p.Acts.Cancel {
		if err := p.running(r, jid); err != nil {
			return nil, err
		}
	}
	out := &page{Template: "job", Title: "Job " + jid}
	if rec := x.Record; rec != nil {
		p.Summary = r.job(rec)
		p.Summary.Try = tries(rec.Payload)
		p.Payload = json.RawMessage(r.bytesOf(rec))
		r.hides(r.fleet.Mask.Bytes(rec), rec.Raw)
		p.fields(r.mask().Payload(rec))
		out.Title = p.Summary.Class + " " + jid
		if lines, err := r.mask().Backtrace(rec); err == nil {
			p.Backtrace = lines[:min(len(lines), mostBacktrace)]
		}
	}
	if x.Periodic != nil && addressable(x.Periodic.Name) {
		p.Clock = r.link("/periodic/{name}", "periodic", x.Periodic.Name)
	}
	if x.Parent != "" && addressable(x.Parent) {
		p.ByJob = r.url("jobs", x.Parent)
	}
	if x.Batch != nil && addressable(x.Batch.ID) {
		p.InBatch = r.url("batches", x.Batch.ID)
	}
	if x.CallbackOf != nil && addressable(x.CallbackOf.ID) {
		p.Calls = r.url("batches", x.CallbackOf.ID)
	}
	if x.Result != nil {
		r.masked = r.masked || !r.showsAll() && mask.Hides(string(x.Result.Value))
	}
	if x.Record == nil && strings.Count(jid, ":") == 2 {
		p.Events = r.eventsAbout(jid)
	}
	out.Data = p
	return out, nil
}

// near is where the link that led here has seen the job, see seenAt.
func (r *request) near() []explain.Near {
	at := explain.Near{Place: r.query("in")}
	for name, to := range map[string]*float64{"score": &at.Score, "within": &at.Within} {
		n, err := strconv.ParseFloat(cmp.Or(r.query(name), "0"), 64)
		if err != nil || math.IsNaN(n) {
			return nil
		}
		*to = n
	}
	at.Position = r.number("position")
	return []explain.Near{at}
}

// seenAt is the address of the page of a job, with the place where it was seen; "" if it has no address.
func (r *request) seenAt(jid, place string, more ...string) string {
	if !addressable(jid) {
		return ""
	}
	where := url.Values{"in": {place}}
	for i := 0; i+1 < len(more); i += 2 {
		where.Set(more[i], more[i+1])
	}
	return r.url("jobs", jid) + "?" + where.Encode()
}

// atPosition is the address of a job that waits in a queue, the first to be taken at 1.
func (r *request) atPosition(jid, queue string, position int64) string {
	return r.seenAt(jid, "queue:"+queue, "position", strconv.FormatInt(position, 10))
}

// atDeath is the address of a job that may have died at a time.
func (r *request) atDeath(jid string, at time.Time) string {
	const within = "5" // the clocks of two machines, and the way to Redis
	return r.seenAt(jid, "dead", "score", scores.Format(scores.Of(at.Truncate(time.Millisecond))), "within", within)
}

// place tells where the job is, and what can be done with it there.
func (p *jobPage) place(r *request) {
	switch x := p.Explanation; {
	case x.Place == "running":
		p.Where, p.Href, p.Heading, p.Acts.Cancel = "Running", r.url("running"), "Runs since", true
	case x.Place == "in progress":
		p.Where, p.Heading = "In progress", "Pushed"
	case x.Entry != nil && x.Entry.Held != nil:
		k := r.ruleKind(r.heldBy(x.Entry))
		p.Where, p.Href, p.Heading, p.Acts.Set, p.Acts.Post = "Held by the limit "+r.ruleText(k.Rule), r.urlOf(k), "Held since", &k, r.urlOf(k, "ticked")
		p.Acts.Key = r.entryKeys().Of(x.Entry, 0).String()
	case x.Entry != nil:
		k := setKinds[x.Place]
		p.Where, p.Href, p.Heading, p.Acts.Set = k.Title, r.url(k.Path), k.When, &k
		p.Acts.Post = r.urlOf(k, "ticked")
		p.Acts.Key = r.entryKeys().Of(x.Entry, 0).String()
	case x.Position > 0:
		name := strings.TrimPrefix(x.Place, "queue:")
		p.Where, p.Href, p.Heading, p.Acts.Queue = "Queue "+name, r.url("queues", name), "Waits since", name
		p.Acts.Key = r.entryKeys().OfQueued(x.Record, name, x.Position).String()
	case x.Place == "batch":
		p.Where = "A callback that was not pushed yet"
	default:
		p.Where = "Nowhere"
	}
}

// running tells which process runs the job, and how it is unresponsive. That is cancelled already.
func (p *jobPage) running(r *request, jid string) error {
	seen, err := r.running()
	if err != nil {
		return err
	}
	for _, w := range seen.list {
		if w.Job.JID == jid {
			p.Process, p.Tree = w.Process, r.link("/tree/{id}", "tree", w.Process)
		}
	}
	if u, ok := seen.stuck[jid]; ok {
		p.Stuck, p.Acts.Cancel = &u, false
	}
	return nil
}

// fields are those of the payload that are not shown elsewhere.
func (p *jobPage) fields(payload *troupe.Payload) {
	for key := range payload.Keys() {
		switch key {
		case "args", "error_backtrace", "class", "jid", "queue", "tags", "error_class", "error_message", "t_parent":
			continue
		}
		raw, _ := payload.Get(key)
		f := field{Name: key, Text: string(raw)}
		if strings.HasSuffix(key, "_at") || key == "at" {
			f.At, _ = payload.Time(key)
		}
		p.Fields = append(p.Fields, f)
	}
}

// bytesOf are the bytes of a job as the user may see them.
func (r *request) bytesOf(rec *inspect.JobRecord) string {
	if r.showsAll() {
		if rec.Err != nil && !json.Valid([]byte(rec.Raw)) {
			text, _ := json.Marshal(rec.Raw) // it is a string
			return string(text)
		}
		return rec.Raw
	}
	return r.fleet.Mask.Bytes(rec)
}

// showsAll reports whether the user sees arguments as they are.
func (r *request) showsAll() bool { return r.revealed() || r.options.Args == mask.Show }
