package run

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/wire"
)

// Run is one run of one job. It is not an actor: user code may block,
// panic, call Goexit or never return, and the actors stay answerable.
type Run struct {
	item work.Item
	facts
	ended   time.Time
	elapsed time.Duration // of the run, set when it has ended

	payload   *troupe.Payload // nil if the bytes do not parse; the handler may have edited it
	err       error
	crash     *supervisor.JobCrash
	returned  bool        // the handler
	read      bool        // its error can be
	concluded bool        // the job's outcome is in Redis, or is on its way
	mine      bool        // the outcome is this run's: taken from the ledger
	handed    bool        // to the settler, or somebody else's
	acked     bool        // its ack goes with the slot
	goBroken  bool        // a goroutine of the job panicked
	sent      job.Outcome // HandedOver, Left, Expired, CalledOff or Held, if it is not to be run here; else Done

	job    jobContext
	began  atomic.Bool // the facts will not change
	freed  atomic.Bool // the job has left its slot
	over   atomic.Bool // the handler and its goroutines have ended
	listed atomic.Bool // as unresponsive

	iteration *iteration // nil if the job is not iterable
	own       *own       // nil if the job has no fields that only troupe writes, and no limits
	asked     atomic.Pointer[admission]
	member    atomic.Pointer[Member] // of a call; nil if the job has one of its own
}

// own is of a job with fields that only troupe writes: few have any, and each job pays for the size of a Run.
type own struct {
	behind  []*troupe.Payload        // the jobs of a chain behind this one
	lock    *job.Lock                // of a unique job that holds it until it is done; else nil
	renewed atomic.Pointer[job.Lock] // that lock while the job runs, for the beat

	batch      *job.InBatch // the place of the job in a batch; nil if it belongs to none
	callbackOf string       // the batch whose callback it is; "" for none
	mid        bool         // it has others behind it in a chain: the last of them counts in the batch

	limits []*troupe.Limit
	rules  atomic.Pointer[job.Rules] // of these, once they have let the job in
	holder string                    // the rule that holds the job, of Held

	mu    sync.Mutex
	rests map[string]time.Duration // what troupe.Rest was told, by limit
}

// facts are what is known of a job once its run has begun. The run that gives another one up
// has the same.
type facts struct {
	w       *work.Item // the item of the run, but for the run that gives another one up
	wire    *wire.Wire
	env     *Env
	slot    Slot
	started time.Time

	jid, class string          // of the payload as it was fetched
	wrapped    string          // likewise
	name       string          // likewise: the class whose handler runs it
	attempt    int             // likewise
	handler    *Class          // nil if unknown
	log        *zerolog.Logger // at the job's own level
}

// Items makes the items of units of the system w, each with a run to be. Some share an allocation, and as
// long as one of these runs the payloads of all stay in memory: few, and large ones none.
func Items(units []fetch.Unit, w *wire.Wire, now time.Time) []*work.Item {
	items := make([]*work.Item, len(units))
	var few []Run
	for i, u := range units {
		if len(few) == 0 {
			n := 1
			if len(u.Payload) <= 2048 {
				n = min(64, len(units)-i)
			}
			few = make([]Run, n)
		}
		r := &few[0]
		few = few[1:]
		r.w, r.wire = &r.item, w
		r.item.Unit, r.item.Fetched, r.item.Job = u, now, r
		items[i] = r.w
	}
	return items
}

// parse reads the job as its system writes it.
func (r *Run) parse() (*troupe.Payload, error) {
	if parse := r.wire.Parse; parse != nil {
		return parse(r.w.Unit.Payload, r.w.Unit.Queue)
	}
	p, err := troupe.ParsePayload(r.w.Unit.Payload)
	if err == nil {
		if raw, ok := p.Get("args"); ok && raw[0] != '[' { // as other clients write it; handlers see an array
			p.Set("args", p.Args())
		}
	}
	return p, err
}

// Shown is the job as Sidekiq's pages show it.
func (r *Run) Shown() []byte {
	if r.wire.Parse != nil {
		if p, err := r.parse(); err == nil {
			return p.Bytes()
		}
	}
	return r.w.Unit.Payload
}

// Item is that of the run.
func (r *Run) Item() *work.Item { return r.w }

// Ref implements work.Job.
func (r *Run) Ref() tree.JobRef {
	if r.began.Load() {
		return tree.JobRef{JID: r.jid, Class: r.class, Queue: r.w.Unit.Queue, Started: r.started}
	}
	ref := tree.JobRef{Queue: r.w.Unit.Queue}
	if p, err := r.parse(); err == nil {
		ref.Class, ref.JID = p.DisplayClass(), p.JID()
	}
	return ref
}

// Interrupt implements work.Job.
func (r *Run) Interrupt(cause error) {
	if r.began.Load() && r.job.Cancel(cause) && !errchain.Is(cause, troupe.ErrShutdown) { // the stop looks for itself
		r.cancelled(cause)
	}
}

// Execute runs the job of w to its end: perform, settle, then free the slot. It tells
// whether the goroutine goes on with another job, and what time it is then; zero if that
// is to be looked up. Everything after the handler is deferred, since a Goexit runs nothing
// else.
func (v *Env) Execute(w *work.Item, slot Slot, now time.Time) (then time.Time, again bool) {
	r := w.Job.(*Run) //nolint:forcetypeassert // Items made it
	r.env, r.slot, r.started, r.log = v, slot, now, &v.Log
	defer func() {
		r.ensure(recover())
		then, again = r.done()
	}()
	defer r.conclude()
	defer r.gathered()
	defer r.caught()
	r.perform()
	r.returned = true
	return time.Time{}, false
}

// done ends the run: the ack, if the job is to have one, and the slot. For most
// jobs nothing lies between the end of one and the start of the next: then one look at
// the clock does for both.
func (r *Run) done() (now time.Time, again bool) {
	var ack *work.Item
	if r.acked {
		ack = r.w
		r.payload = nil // the units of a fetch stay until the last of them has ended
	}
	if r.freed.Swap(true) {
		if ack != nil {
			r.env.Settler.Ack(ack)
		}
		r.slot.Left()
		return time.Time{}, false
	}
	if r.ended.IsZero() {
		r.ended = time.Now()
	}
	yielded := r.slot.Finish(ack, r.crash, r.ended)
	if !yielded && r.acked && !r.watched() {
		now = r.ended
	}
	return now, r.concluded && r.crash == nil
}

// watched tells whether a log or a subscriber, either of which may block, was told of
// the end of a job that was done.
func (r *Run) watched() bool {
	return r.env.Wanted.Load() || r.log.GetLevel() <= zerolog.InfoLevel
}

// free gives the slot to another worker before the end of the run.
func (r *Run) free() {
	if !r.freed.Swap(true) {
		r.slot.Replace()
	} else if c, ok := r.inCall().(*Call); ok {
		c.gaveUp()
	}
}

func (r *Run) perform() {
	if q := r.asked.Load(); q != nil && q.payload != nil {
		r.payload, q.payload = q.payload, nil
	} else if r.payload, r.err = r.parse(); r.err != nil {
		return
	}
	p := r.payload
	r.log = jobLogger(r.log, p)
	r.jid, r.class, r.name, r.attempt = p.JID(), p.DisplayClass(), p.HandlerClass(), p.Failures()+1
	r.wrapped = p.Wrapped()
	var ok bool
	if r.handler, ok = r.env.Classes[r.name]; !ok {
		r.handler, ok = r.aliased()
	}
	if !ok && r.named() {
		r.handler, ok = r.env.Classes[troupe.AnyClass]
	}
	r.job.r = r
	if limits := r.env.limits(r.handler, r.w.Unit.Queue); limits != nil || job.HasOwn(r.w.Unit.Payload) {
		r.own = &own{limits: limits}
	}
	defer r.job.Cancel(nil)
	r.began.Store(true)
	if !r.env.Ledger.IsOpen(r.w) { // taken from us between fetch and start
		r.payload = nil
		return
	}
	if r.w.Sampled {
		if pushed, ok := p.Time("enqueued_at"); ok {
			r.env.Traffic.Waited(r.w.Unit.Queue, r.started.Sub(pushed))
		}
	}
	if r.own != nil {
		r.locked()
		r.batched()
	}
	if r.elsewhere() || r.calledOff() {
		return
	}
	if check := r.wire.Check; check != nil {
		if err := check(p, r.started); err != nil {
			r.err = troupe.Kill(err)
			return
		}
	}
	var options *troupe.Options
	if ok {
		options = &r.handler.options
	}
	if r.err = job.Late(p, options, r.started); r.err != nil {
		if job.AskedBy(r.err).Discard {
			r.sent = job.Expired
		}
		return
	}
	if !ok {
		if r.name == job.NotAJob {
			r.payload, r.err = nil, job.NotAJobAgain()
			return
		}
		r.err = &troupe.UnknownClassError{Class: r.name}
		if r.name == "" { // nobody can run it, and Sidekiq's poller would lose it
			r.err = troupe.Kill(r.err)
		}
		return
	}
	if r.own != nil {
		if r.err = r.countable(); r.err != nil || !r.admitted() || !r.ownStart() {
			return
		}
	}
	if r.err = r.env.Crypt.Open(p); r.err != nil { // what is stored of the job is made from its bytes
		return
	}
	ctx := context.Context(&r.job)
	if t := r.timeout(); t > 0 {
		var stop func()
		ctx, stop = r.timed(t)
		defer stop()
	}
	if r.handler.iterable {
		ctx = r.iterable(ctx, r.jid)
	}
	if r.env.Wanted.Load() {
		r.publish(event.JobStarted{JobEvent: r.now()})
	}
	if line := r.log.Debug(); line.Enabled() {
		line.Str("jid", words.Text(r.jid)).Str("class", words.Text(r.class)).Str("queue", words.Text(r.w.Unit.Queue)).
			Str("capsule", r.env.Capsule).Int("attempt", r.attempt).Msg("job started")
	}
	r.err = r.handler.handler.Perform(ctx, p)
	if g := r.job.started(); g != nil { // before the context ends with this function
		r.err, r.goBroken = g.Wait(r.err)
	}
}

// gathered waits for the goroutines of a handler that has not returned, and
// makes a panic of one the processor's.
func (r *Run) gathered() {
	if !r.returned {
		if g := r.job.started(); g != nil {
			_, _ = g.Wait(nil) // the handler's own panic came first
		}
	}
	if r.goBroken {
		stack := debug.Stack()
		if p, ok := errchain.As[*troupe.PanicError](r.err); ok {
			stack = p.Stack
		}
		r.crash = &supervisor.JobCrash{Queue: r.w.Unit.Queue, Err: r.err, Stack: stack, Class: r.class, JID: r.jid}
	}
}

// caught turns a panic or Goexit of the handler into the job's error, and into
// the reason with which its processor will crash once the job is settled.
func (r *Run) caught() {
	v := recover()
	switch {
	case v != nil:
		r.err = &troupe.PanicError{Value: v, Stack: debug.Stack()}
		if c, ok := r.inCall().(*Call); ok && v == any(c.fault) {
			r.err = c.fault
		}
	case !r.returned:
		r.err = &troupe.PanicError{Goexit: true, Stack: debug.Stack()}
	default:
		readable(&r.err)
		r.read = true
		return
	}
	r.crash = &supervisor.JobCrash{Queue: r.w.Unit.Queue, Err: r.err, Stack: debug.Stack(), Class: r.class, JID: r.jid}
}
