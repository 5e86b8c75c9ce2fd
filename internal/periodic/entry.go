// Package periodic keeps periodic jobs in Redis, on the keys of Ruby's sidekiq-cron, and carries
// out their ticks.
//
// An entry is a hash. Its marks are the ticks that it has had: whoever adds the mark of a tick
// pushes its job. So of all pollers, Ruby's among them, one pushes, and the newest mark is how far
// the entry has come. One script does both (tick.lua). Only the leader of the scheduler calls it,
// but two leaders do no harm.
package periodic

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/sched"
)

// markForm is a tick as the member of a zset, pushForm the time of a push as people and Ruby read it.
const (
	markForm = "2006-01-02T15:04:05Z"
	pushForm = "2006-01-02 15:04:05 -0700"
	wrapper  = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"
)

// Entry is a periodic job as Redis has it.
type Entry struct {
	Name, Namespace  string
	Class, Queue     string
	Cron             string // the line
	Args             json.RawMessage
	Description      string
	Disabled         bool
	Missed           troupe.Missed
	MissedMax        int
	Once             bool
	Overlap          troupe.Overlap
	Shared           bool      // with sidekiq-scheduler, by its marks
	Tag              string    // of the configuration that has it; "" if Ruby or people do
	Own              bool      // it was written by troupe
	Mark             time.Time // the last tick that is done with; zero if there is none
	Pushed           time.Time // the last push, by whomever
	Last             *Tick     // what troupe has done at its last tick
	Next             time.Time // tick, zero if none comes
	Ruby             string    // why only Ruby can push it, ""
	Fault            error     // why nobody can
	key              string
	fields           map[string]string
	state            string // in keys.SchedulerStates
	line             *sched.Schedule
	activeJob, dated bool
}

// Tick is what became of the last tick of an Entry that troupe has dealt with.
type Tick struct {
	At     time.Time     `json:"at"`
	What   string        `json:"what"` // pushed, missed, disabled, repeated, stopped, overlapped; written when it was written or enabled after the tick
	JID    string        `json:"jid,omitempty"`
	Late   time.Duration `json:"late,omitempty"`
	Missed int           `json:"missed,omitempty"` // ticks before it that no job was pushed for
}

// own is what troupe adds to the hash, in its field troupe.
type own struct {
	Tag    string        `json:"tag,omitempty"`
	Missed troupe.Missed `json:"missed,omitempty"`
	Max    int           `json:"max,omitempty"`
	Once   bool          `json:"once,omitempty"`
	Shared bool          `json:"scheduler,omitempty"`

	Overlap troupe.Overlap `json:"overlap,omitempty"`
}

// parse reads the hash at key and the newest mark. known tells which classes have a handler here.
func parse(key, namespace string, fields map[string]string, mark string, zone *time.Location, known func(class string) bool) *Entry {
	e := &Entry{
		key: key, fields: fields, Namespace: namespace, Name: fields["name"], Class: fields["klass"], Cron: fields["cron"],
		Description: fields["description"], Disabled: fields["status"] != "enabled",
		activeJob: isTrue(fields["active_job"]), dated: isTrue(fields["date_as_argument"]),
	}
	var o own
	if text, ok := fields["troupe"]; ok {
		e.Own = true
		_ = json.Unmarshal([]byte(text), &o) // what is not understood has its default
	}
	e.Tag, e.Missed, e.MissedMax, e.Once, e.Overlap, e.Shared = o.Tag, cmp.Or(o.Missed, troupe.MissedSkip), cmp.Or(o.Max, 100), o.Once, o.Overlap, o.Shared
	e.Mark, _ = time.Parse(markForm, mark)
	e.Pushed, _ = time.Parse(pushForm, fields["last_enqueue_time"])
	if last := new(Tick); json.Unmarshal([]byte(fields["troupe_last"]), last) == nil {
		e.Last = last
	}
	e.Args = argsOf(fields["args"])
	p, err := troupe.ParsePayload([]byte(fields["message"]))
	if err != nil {
		e.Fault = fmt.Errorf("message: %w", err)
		return e
	}
	e.Queue = cmp.Or(e.queue(p), "default")
	e.Class = cmp.Or(e.Class, p.Class())
	if e.line, e.Fault = sched.Parse(e.Cron, zone); e.Fault != nil {
		return e
	}
	if e.Once {
		e.line = e.line.Once()
	}
	_, retry := p.Get("retry")
	switch {
	case e.Own || known == nil:
	case !e.activeJob && !retry && !known(e.Class):
		e.Ruby = "only Ruby knows whether " + e.Class + " is a class of Active Job: say active_job, or give the entry retry"
	case e.line.Interval():
		e.Ruby = "Ruby takes its interval for something else: give it a cron line"
	case !e.Mark.IsZero() && !e.line.Prev(e.Mark).Equal(e.Mark):
		e.Ruby = fmt.Sprintf("its last tick in Ruby, %s, is none in the zone %s: give the line a zone", e.Mark.UTC().Format(markForm), e.line.Location())
	case strings.Contains(fields["args"], `"_sc_globalid"`) && !e.activeJob:
		e.Ruby = "its arguments name records that only Ruby can read"
	}
	return e
}

func isTrue(text string) bool { return text == "1" || text == "true" }

// queue is where the job goes, as Ruby has it.
func (e *Entry) queue(p *troupe.Payload) string {
	queue := p.Queue()
	if prefix := e.fields["queue_name_prefix"]; e.activeJob && prefix != "" {
		queue = prefix + cmp.Or(e.fields["queue_name_delimiter"], "_") + cmp.Or(queue, "default")
	}
	return queue
}

// argsOf reads arguments as Ruby does: a list, a value, or text that is no JSON.
func argsOf(text string) json.RawMessage {
	switch raw := json.RawMessage(strings.TrimSpace(text)); {
	case len(raw) == 0 || string(raw) == "null":
		return json.RawMessage("[]")
	case !json.Valid(raw):
		quoted, err := job.EncodeJSON(text)
		if err != nil {
			return json.RawMessage("[]")
		}
		return json.RawMessage("[" + string(quoted) + "]")
	case raw[0] == '[':
		return raw
	default:
		return json.RawMessage("[" + string(raw) + "]")
	}
}

// Job makes the job of a tick; client middleware has not seen it. at is the time of the push.
func (e *Entry) Job(tick, at time.Time, form troupe.Timestamps) (*troupe.Payload, error) {
	p, err := troupe.ParsePayload([]byte(e.fields["message"]))
	if err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	args := e.Args
	if e.dated {
		comma := ","
		if string(args) == "[]" {
			comma = ""
		}
		args = fmt.Appendf(nil, "%s%s%.6f]", args[:len(args)-1], comma, float64(at.UnixMicro())/1e6)
	}
	if e.activeJob {
		p = new(troupe.Payload)
		wrapped, err := job.EncodeJSON(e.Class)
		if err != nil {
			return nil, fmt.Errorf("class: %w", err)
		}
		queue, err := job.EncodeJSON(e.Queue)
		if err != nil {
			return nil, fmt.Errorf("queue: %w", err)
		}
		args = []byte(strings.ReplaceAll(string(args), `"_sc_globalid"`, `"_aj_globalid"`))
		p.SetString("class", wrapper)
		p.Set("wrapped", wrapped)
		p.SetString("description", e.Description)
		args = fmt.Appendf(nil, `[{"job_class":%s,"job_id":%q,"queue_name":%s,"arguments":%s}]`, wrapped, uuid(), queue, args)
	}
	p.SetString("queue", e.Queue)
	p.Set("args", args)
	p.SetString("jid", job.NewID())
	p.SetTime("created_at", at, form)
	if _, ok := p.Get("retry"); !ok {
		p.Set("retry", json.RawMessage("true"))
	}
	if e.Own {
		p.SetString(nameField, e.Name)
		if !tick.IsZero() {
			p.SetString(TickField, tick.UTC().Format(markForm))
		}
	}
	return p, nil
}

// The fields of a job that name its entry and its tick, which troupe.Tick reads. A job that was pushed beside the ticks has none.
const (
	nameField = "troupe_periodic"
	TickField = "troupe_tick"
)

// Origin is the entry, and the tick, that a job says it comes from: "" and the zero Time if it says none.
func Origin(p *troupe.Payload) (name string, tick time.Time) {
	name, _ = p.String(nameField)
	tick, _ = troupe.Tick(p)
	return name, tick
}

// Ticks are those after now, n at most.
func (e *Entry) Ticks(now time.Time, n int) (all []time.Time) {
	for at := now; e.Fault == nil && len(all) < n; all = append(all, at) {
		if at = e.line.Next(at); at.IsZero() {
			break
		}
	}
	return all
}

// Key is the key of the hash.
func (e *Entry) Key() string { return e.key }

// Spec is the entry as a configuration would say it.
func (e *Entry) Spec() troupe.Periodic {
	return troupe.Periodic{
		Name: e.Name, Namespace: e.Namespace, Cron: e.Cron, Class: e.Class, Queue: e.Queue, Description: e.Description,
		Missed: e.Missed, MissedMax: e.MissedMax, Once: e.Once, Overlap: e.Overlap, SidekiqScheduler: e.Shared, Disabled: e.Disabled, DateArg: e.dated, ActiveJob: e.activeJob,
	}
}

// uuid is a random one, as Active Job names its jobs.
func uuid() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
