package troupe

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime/debug"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe/internal/limits"
)

// Options describe all jobs of a class, as sidekiq_options does in Ruby. A client.Option describes one
// push; there is one for each field here that a push can set. A type of arguments returns its Options from a method Defaults (see Args).
// Handle takes further Options, for its daemon only. A field with its zero value is unset.
//
// The first value that is set counts. For a push the order is: the option of the call, Defaults of the type, the
// default of the client. In the daemon it is: the field of the payload, the option of Handle, Defaults of the
// type, the configuration of the daemon.
//
// Callbacks are called concurrently; one that panics counts as unset.
type Options struct {
	// Queue is where a push puts the job, and Tags are labels that Sidekiq's pages
	// show. They belong to a push: only Defaults may set them.
	Queue string
	Tags  []string

	// Unique makes jobs unique: a push is refused while another job that is the same waits or runs. It belongs to a push: only
	// Defaults may set it. If nil, jobs are not unique.
	Unique *Unique

	// Encrypt makes a push seal the last argument of a job with the newest key of the client (see Encryption), so that the
	// argument is never in clear in Redis. The daemon opens it for the handler. It belongs to a push: only Defaults may set it.
	Encrypt bool

	// Limits are how many jobs of the class run at once, or start in a time, in all processes together. They belong to
	// the daemon that runs the class: all daemons should have the same.
	Limits []Limit

	// Retries is how often a failed job is retried: Times or Never. A push writes
	// it into the field "retry", where Ruby reads it. The daemon takes it where
	// that field is true, null or absent.
	Retries Retries

	// RetryQueue is the queue of the retries. Unset, it is the queue of the run
	// that failed.
	RetryQueue string

	// Dead tells, with new(false), to drop a job whose retries are used up. Unset,
	// and with new(true), it goes to the dead set.
	Dead *bool

	// Backtrace is how many lines of a failure's stack are stored; below 0 all,
	// unset none.
	Backtrace int

	// Timeout cancels the context of a run, with cause ErrJobTimeout. Unset, a run
	// may take for ever. A job may have one of its own: client.Timeout.
	Timeout time.Duration

	// ExpireAfter is how long after its push (created_at) a run of a job may still start. A job
	// that is late goes to the dead set with an ExpiredError, also if it was scheduled for a later time than that. Unset, jobs never expire. A push
	// may set a time for its job: client.ExpireAt.
	ExpireAfter time.Duration

	// DropExpired drops a job that has expired, instead of moving it to the dead set: it has not failed, and is stored
	// nowhere. A push may set it for its job: client.DropExpired.
	DropExpired bool

	// ResultFor is how long the end of a job is kept for client.Await: its result, that it has none, or the
	// error of a dead job. Unset, only results are kept, for an hour (see Job.SetResult). If Defaults of the type set it, a push
	// writes it into the job, so that operators and client middleware that end the job keep the end, too. A push may set a time for its job: client.KeepResult.
	ResultFor time.Duration

	// RetryIn chooses the wait before the next attempt, to which 0 to 10·attempt seconds of jitter are
	// added, as by Sidekiq; to a wait of Exactly nothing is added. attempt is the one that has failed, 1 at
	// the first failure (Job.Attempt); p is the stored payload with the fields of this failure.
	RetryIn func(attempt int, err error, p *Payload) Delay

	// Exhausted is called when no retry is left, before the job goes to the
	// dead set; discard keeps it out of there. Death handlers run either way.
	Exhausted func(p *Payload, err error) (discard bool)

	// Recovery is where a job goes whose process died while it ran. The process that
	// rescues it decides, so all processes should have the same.
	Recovery Recovery

	// Take is the share of the jobs of the class that the daemon runs, for a careful move from
	// another program: see Percent. Unset, it runs all. The others are handed over to RestQueue, or
	// where that is "" to the queue of the capsule's actors.Unknown, from which that program
	// takes. The jid decides, so that a job stays on its side when it is retried.
	Take      Share
	RestQueue string

	// Middleware wraps this class only, inside the middleware of the daemon.
	Middleware []Middleware
}

// Timeout returns Options with only that field.
func Timeout(d time.Duration) Options { return Options{Timeout: d} }

// Retries is how often a failed job is retried: what Times or Never returns. The zero
// value is unset.
type Retries struct {
	max        int
	set, never bool
}

// Times allows n retries, n+1 runs in all. With 0 the first failure sends the job
// to the dead set.
func Times(n int) Retries { return Retries{max: n, set: true} }

// Never drops a job that fails: no retry, no dead set, only death handlers. It is
// Ruby's "retry: false".
func Never() Retries { return Retries{set: true, never: true} }

// Limit returns the n of Times(n), -1 for Never, and whether r is set at all.
func (r Retries) Limit() (n int, set bool) {
	if r.never {
		return -1, true
	}
	return r.max, r.set
}

// DefaultsOf returns the Options of the type of args, from its method Defaults; none if it has
// no such method. The method is called on a zero value, and may have a pointer receiver.
// Options that are out of range are an error that names the field; a panic of the method is a
// *PanicError.
func DefaultsOf(args any) (Options, error) {
	t := reflect.TypeOf(args)
	if t == nil {
		return Options{}, nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	own, ok := reflect.TypeAssert[interface{ Defaults() Options }](reflect.New(t))
	if !ok {
		return Options{}, nil
	}
	o, err := ask(own.Defaults)
	if err == nil {
		err = o.validate()
	}
	if err != nil {
		return Options{}, fmt.Errorf("Defaults of %v: %w", t, err)
	}
	return o, nil
}

// ask calls a method of a user's type.
func ask(defaults func() Options) (o Options, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return defaults(), nil
}

// validate tells what is wrong with o.
func (o Options) validate() error {
	bad := func(field, got, want string) error { return fmt.Errorf("%s is %s, expected %s", field, got, want) }
	if r := o.Retries; r.max < 0 {
		return bad("Retries", fmt.Sprintf("Times(%d)", r.max), "a number from 0, or Never")
	}
	if o.Unique != nil {
		if err := o.Unique.Validate(); err != nil {
			return err
		}
	}
	for i, l := range o.Limits {
		if err := l.Validate(); err != nil {
			return fmt.Errorf("Limits[%d]: %w", i, err) //nolint:staticcheck // the name of a field
		}
	}
	if o.Timeout < 0 {
		return bad("Timeout", o.Timeout.String(), "a time above 0")
	}
	if o.ResultFor < 0 {
		return bad("ResultFor", o.ResultFor.String(), "a time above 0")
	}
	if o.ExpireAfter < 0 {
		return bad("ExpireAfter", o.ExpireAfter.String(), "a time above 0")
	}
	if p, _ := o.Take.Percent(); !(p >= 0 && p <= 100) { // NaN, too
		return bad("Take", fmt.Sprintf("Percent(%v)", p), "a number from 0 to 100")
	}
	for _, f := range [...]struct{ field, name string }{{"Queue", o.Queue}, {"RetryQueue", o.RetryQueue}, {"RestQueue", o.RestQueue}} {
		if !utf8.ValidString(f.name) {
			return bad(f.field, strconv.QuoteToASCII(f.name), "a name in UTF-8")
		}
	}
	for i, tag := range o.Tags {
		if !utf8.ValidString(tag) {
			return bad(fmt.Sprintf("Tags[%d]", i), strconv.QuoteToASCII(tag), "text in UTF-8")
		}
	}
	for i, mw := range o.Middleware {
		if mw == nil {
			return bad(fmt.Sprintf("Middleware[%d]", i), "nil", "a function")
		}
	}
	return limits.Recovery(o.Recovery.Queue, o.Recovery.Delay, o.Recovery.Dead)
}

// under returns o with the fields of top, where top sets them.
func (o Options) under(top Options) Options {
	o.Queue = cmp.Or(top.Queue, o.Queue)
	o.Retries = cmp.Or(top.Retries, o.Retries)
	o.RetryQueue = cmp.Or(top.RetryQueue, o.RetryQueue)
	o.Dead = cmp.Or(top.Dead, o.Dead)
	o.Unique = cmp.Or(top.Unique, o.Unique)
	o.Encrypt = top.Encrypt || o.Encrypt
	o.Backtrace = cmp.Or(top.Backtrace, o.Backtrace)
	o.Timeout = cmp.Or(top.Timeout, o.Timeout)
	o.ExpireAfter = cmp.Or(top.ExpireAfter, o.ExpireAfter)
	o.DropExpired = cmp.Or(top.DropExpired, o.DropExpired)
	o.ResultFor = cmp.Or(top.ResultFor, o.ResultFor)
	o.Recovery = cmp.Or(top.Recovery, o.Recovery)
	o.Take = cmp.Or(top.Take, o.Take)
	o.RestQueue = cmp.Or(top.RestQueue, o.RestQueue)
	if top.Tags != nil {
		o.Tags = top.Tags
	}
	if top.Limits != nil {
		o.Limits = top.Limits
	}
	if top.RetryIn != nil {
		o.RetryIn = top.RetryIn
	}
	if top.Exhausted != nil {
		o.Exhausted = top.Exhausted
	}
	if top.Middleware != nil {
		o.Middleware = top.Middleware
	}
	return o
}

// Recovery says where a job goes whose process died while it was in progress.
// The zero value puts it back into its queue, to run next, bytes unchanged. At
// most one field is set.
type Recovery struct {
	// Queue is another queue, of a process with more memory for example.
	Queue string
	// Delay puts it into the schedule set, due after that.
	Delay time.Duration
	// Dead puts it into the dead set: it must not begin twice.
	Dead bool
}

// RecoveredError is why a job is dead that has not failed: its process died
// under it. Death handlers get it.
type RecoveredError struct {
	Times   int           // recoveries within Within, the last one included
	Within  time.Duration // the window of the limit
	Process string        // identity of the process that died last
	Cause   string        // what is known of its end
	Poison  bool          // too many times; else its class is not to be run again
}

func (e *RecoveredError) Error() string {
	if e.Poison {
		return fmt.Sprintf("in progress at the death of %d processes within %v, at last of %s (%s)",
			e.Times, e.Within, e.Process, e.Cause)
	}
	return fmt.Sprintf("its process died under it: %s (%s)", e.Process, e.Cause)
}

// ErrorClass returns "Troupe::PoisonPill" or "Troupe::Recovered".
func (e *RecoveredError) ErrorClass() string {
	if e.Poison {
		return "Troupe::PoisonPill"
	}
	return "Troupe::Recovered"
}
