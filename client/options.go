package client

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

// Option changes one push: there is one for each field of a job that a push can set, and Set for
// fields of your own. troupe.Options describe a class, and are not given to a push. An Option counts before the Defaults of the job's type (see
// troupe.Options), and these before WithDefaults. Of options for the same field the
// last one counts; of In, At, Spread and Debounce only one may be given. A value out
// of range fails the push with a *FieldError.
type Option func(*options)

// field is one field of the payload.
type field struct {
	key  string
	name string // key as JSON
	text json.RawMessage
}

// Ruby writes these two first, and so they are in every list of fields.
const (
	retryField = iota
	queueField
)

func builtin() []field {
	return []field{
		retryField: {"retry", `"retry"`, json.RawMessage("true")},
		queueField: {"queue", `"queue"`, json.RawMessage(`"default"`)},
	}
}

// options is what the Options of one push add up to.
type options struct {
	fields []field
	queue  string // that of fields, once they are complete
	head   []byte // all of fields, as each job begins: {"retry":true,"queue":"default",
	jid    string

	unique   *troupe.Unique // nil: the job is not
	debounce *debounced     // likewise
	encrypt  bool           // the last argument

	when  func(now time.Time) time.Time // nil: at once
	timed string                        // name of the option that set when
	batch int
	err   error // the first fault

	spanned bool // fields has a retry_for that none of these Options has set
}

func (o *options) set(key string, text json.RawMessage) {
	if key == "retry_for" {
		o.spanned = false
	}
	if i := slices.IndexFunc(o.fields, func(f field) bool { return f.key == key }); i >= 0 {
		o.fields[i].text = text
		return
	}
	name, err := job.EncodeJSON(key)
	if err != nil {
		o.fail(&FieldError{"Set", strconv.QuoteToASCII(key), "a key in UTF-8"})
		return
	}
	o.fields = append(o.fields, field{key, string(name), text})
}

// retry sets the field retry. A retry_for of the defaults, by which Sidekiq 8 would
// not look at it, goes.
func (o *options) retry(value any) {
	if o.spanned {
		o.spanned = false
		o.fields = slices.DeleteFunc(o.fields, func(f field) bool { return f.key == "retry_for" })
	}
	o.json("retry", value)
}

func (o *options) json(key string, value any) {
	text, err := job.EncodeJSON(value)
	if err != nil {
		o.fail(err)
		return
	}
	o.set(key, text)
}

func (o *options) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

func (o *options) time(name string, when func(now time.Time) time.Time) {
	if o.timed != "" {
		o.fail(&FieldError{name, "it together with " + o.timed, "only one of them"})
	}
	o.timed, o.when = name, when
}

// bulkOnly names the option that a single push cannot have, "" if there is none.
func (o *options) bulkOnly() string {
	switch {
	case o.timed == "Spread":
		return o.timed
	case o.batch != 0:
		return "BatchSize"
	}
	return ""
}

// Queue names the queue; without any it is "default". Sidekiq's pages exist only
// for names of letters, digits and "_", ":", ".", "-".
func Queue(name string) Option { return func(o *options) { o.json("queue", name) } }

// Retry allows n retries: n+1 runs, then the dead set; 0 means dead at the
// first failure. Without any it is what the daemon has for the class, or 25. A
// RetryFor of the defaults does not apply then.
func Retry(n int) Option {
	return func(o *options) {
		if n < 0 {
			o.fail(&FieldError{"retry", strconv.Itoa(n), "a number of retries from 0"})
			return
		}
		o.retry(n)
	}
}

// RetryFor retries for a span of time after the first failure instead of a
// number of times; whole seconds, from 1 s to 1e9 s.
func RetryFor(d time.Duration) Option {
	return func(o *options) {
		if d < time.Second || d > maxRetryFor*time.Second {
			o.fail(&FieldError{"retry_for", d.String(), "1s to 1000000000s"})
			return
		}
		o.json("retry_for", int64(d/time.Second))
	}
}

// Never drops the job if it fails: no retry, no dead set, only death handlers. It is Ruby's
// "retry: false".
func Never() Option { return func(o *options) { o.retry(false) } }

// RetryQueue names the queue of the retries; without any it is the queue of the run that failed.
func RetryQueue(name string) Option {
	return func(o *options) {
		if name == "" {
			o.fail(&FieldError{"retry_queue", `""`, "a name"})
			return
		}
		o.json("retry_queue", name)
	}
}

// Dead tells whether the job goes to the dead set when its retries are used up. Without it, it does,
// unless its class says otherwise.
func Dead(keep bool) Option { return func(o *options) { o.json("dead", keep) } }

// Backtrace is how many lines of a failure's stack are stored: all below 0, none at 0 and without it.
func Backtrace(lines int) Option {
	return func(o *options) {
		switch {
		case lines < 0:
			o.json("backtrace", true)
		case lines == 0:
			o.json("backtrace", false)
		default:
			o.json("backtrace", lines)
		}
	}
}

// Tags are labels that Sidekiq's pages show. They stand in place of those of the class; without any
// argument the job has none.
func Tags(tags ...string) Option {
	return func(o *options) { o.json("tags", append([]string{}, tags...)) }
}

// Timeout is how long one run of the job may take in a daemon of troupe: then its context
// ends with the cause troupe.ErrJobTimeout. It counts before the Timeout of its class. Ruby
// does not look at it.
func Timeout(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 {
			o.fail(&FieldError{"t_timeout", d.String(), "a time above 0"})
			return
		}
		o.json("t_timeout", d.Seconds())
	}
}

// ExpireAt is the time after which no run of the job starts in a daemon of troupe: it goes to
// the dead set instead, with a troupe.ExpiredError, or is dropped (DropExpired). It counts before the ExpireAfter of its
// class. Ruby does not look at it. A push of a job that is due later than that is a *FieldError, but for one with Spread.
func ExpireAt(at time.Time) Option {
	return func(o *options) {
		if at.Unix() <= 0 {
			o.fail(&FieldError{"t_deadline", at.String(), "a time after 1970"})
			return
		}
		o.json("t_deadline", float64(at.UnixMicro())/1e6)
	}
}

// DropExpired drops the job if it has expired (see ExpireAt), instead of moving it to the dead set: it has not failed, and
// is stored nowhere. It overrides the DropExpired of the class. Ruby does not look at it.
func DropExpired() Option { return func(o *options) { o.json("t_drop", true) } }

// In schedules the job d from now; d <= 0 means at once.
func In(d time.Duration) Option {
	return func(o *options) {
		o.time("In", func(now time.Time) time.Time { return now.Add(d) })
	}
}

// At schedules the job; a time that is not in the future means at once.
func At(t time.Time) Option {
	return func(o *options) { o.time("At", func(time.Time) time.Time { return t }) }
}

// JID sets the job's id, printable ASCII without quotes and backslashes; the
// default is 24 random hex digits. Not for bulk pushes.
func JID(jid string) Option {
	return func(o *options) {
		if jid == "" || !plain(jid) {
			o.fail(&FieldError{"jid", strconv.QuoteToASCII(jid), "printable ASCII without quotes and backslashes"})
			return
		}
		o.jid = jid
	}
}

// plain reports whether s is printable ASCII that stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Set adds any other field to the payload, encoded by troupe.Payload.SetJSON.
func Set(key string, value any) Option {
	return func(o *options) {
		switch key {
		case "class", "args", "jid", "at", "created_at", "enqueued_at", "t_lock", "t_next", "t_parent", "t_batch", "t_callback":
			o.fail(&FieldError{"Set", strconv.Quote(key), "a field that has no other way to be given"})
			return
		}
		text, err := job.EncodeJSON(value)
		if err == nil {
			text, err = checkField(key, text)
		}
		if err != nil {
			o.fail(err)
			return
		}
		o.set(key, text)
	}
}

// minSpread is the shortest span that Sidekiq spreads jobs over.
const minSpread = 5 * time.Second

// Spread is for bulk pushes and schedules each job at a random time within d from
// now (within 5 s if d is shorter), so that they do not all run at once.
func Spread(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 {
			o.fail(&FieldError{"Spread", d.String(), "a positive duration"})
			return
		}
		span := max(d, minSpread)
		o.time("Spread", func(now time.Time) time.Time {
			return now.Add(rand.N(span))
		})
	}
}

// BatchSize is for bulk pushes: how many jobs share a round trip: by default
// 1,000, and 100 if they are scheduled. Below 1 the push is a *FieldError.
func BatchSize(n int) Option {
	return func(o *options) {
		if n <= 0 {
			o.fail(&FieldError{"BatchSize", strconv.Itoa(n), "a positive number"})
			return
		}
		o.batch = n
	}
}
