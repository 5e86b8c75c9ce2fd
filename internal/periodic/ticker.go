package periodic

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
)

const (
	readEvery = 30 * time.Second // what is changed without a word is seen so late, as by Ruby
	again     = time.Second      // between two tries
	atOnce    = 100              // ticks of a pipeline

	overlapped = "overlapped" // what became of a tick while the job of an earlier one was there
)

//go:embed tick.lua
var tickSource string

var tickScript = script.New("periodic.tick", tickSource)

// Ticker carries out the ticks of all entries. One goroutine may use it at a time, but for Stale.
type Ticker struct {
	Store  *Store
	Client *client.Client // its middleware sees each job
	Form   troupe.Timestamps
	// Ticked is told of each tick that this process has marked, Wrong of what keeps an entry from
	// its ticks, once.
	Ticked func(e *Entry, t Tick)
	Wrong  func(e *Entry, why error)

	entries map[string]*Entry
	trying  map[string]map[int64]*firing // of an entry: what got no answer
	told    map[string]string            // of an entry: what Wrong was told
	stale   atomic.Bool
	read    time.Time // when the entries were read, by the clock of this process
	clock   time.Time // and by that of Redis
}

// Stale has the next Step read the entries again.
func (t *Ticker) Stale() { t.stale.Store(true) }

// Step carries out what is due and returns how long nothing will be, at most 30 s.
func (t *Ticker) Step(ctx context.Context) (time.Duration, error) {
	if t.stale.Swap(false) || t.entries == nil || time.Since(t.read) >= readEvery {
		if err := t.readAll(ctx); err != nil {
			t.Stale()
			return 0, err
		}
	}
	now := t.now()
	var todo []step
	var failed error
	for key, e := range t.entries {
		if e.Next.After(now) {
			continue
		}
		for _, f := range e.due(now) {
			if s, ok := t.prepare(ctx, key, e, f); ok {
				todo = append(todo, s)
			}
		}
		e.Next = e.line.Next(now)
	}
	for len(todo) > 0 {
		n := min(len(todo), atOnce)
		err := t.carryOut(ctx, todo[:n])
		failed = errors.Join(failed, err)
		if err != nil && !isReply(err) {
			break
		}
		todo = todo[n:]
	}
	if failed != nil {
		t.Stale()
		return 0, failed
	}
	if t.stale.Load() {
		return again, nil
	}
	wait := readEvery - time.Since(t.read)
	for _, e := range t.entries {
		if !e.Next.IsZero() {
			wait = min(wait, e.Next.Sub(t.now()))
		}
	}
	return max(wait, 0), nil
}

// now is the time by the clock of Redis, whatever that of this process does meanwhile.
func (t *Ticker) now() time.Time { return t.clock.Add(time.Since(t.read)) }

func (t *Ticker) readAll(ctx context.Context) error {
	all, err := t.Store.All(ctx)
	if err != nil {
		return err
	}
	clock, err := t.Store.Redis.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("read the clock of Redis: %w", err)
	}
	t.read, t.clock = time.Now(), clock
	was := t.entries
	t.entries = make(map[string]*Entry, len(all))
	if t.trying == nil {
		t.trying, t.told = map[string]map[int64]*firing{}, map[string]string{}
	}
	for _, e := range all {
		why := e.Fault
		if why == nil && e.Ruby != "" {
			why = errors.New(e.Ruby)
		}
		if why != nil {
			t.wrong(e, why)
			continue
		}
		if old := was[e.key]; old != nil && old.Cron != e.Cron {
			if tick := e.line.Prev(clock); tick.After(e.Mark) {
				e.Mark, e.Last = tick, nil // of the new line this is no tick that was missed
			}
		}
		e.Next = e.line.Next(e.cursor()) // the next one that has no mark
		if e.Mark.IsZero() {
			e.Next = clock
		}
		t.entries[e.key] = e
	}
	if redisconn.OnCluster(t.Store.Redis) {
		return t.finish(ctx, all)
	}
	return nil
}

// wrong tells of e once for each reason, whichever tick it is about.
func (t *Ticker) wrong(e *Entry, why error) {
	reason := why
	for inner := errors.Unwrap(reason); inner != nil; inner = errors.Unwrap(reason) {
		reason = inner
	}
	if t.told[e.key] != reason.Error() {
		t.told[e.key] = reason.Error()
		t.Wrong(e, why)
	}
}

// step is a tick with what the script needs.
type step struct {
	e    *Entry
	f    *firing
	late time.Duration
	keys []string
	args []any
}

// prepare makes the job of a tick, the same one if the tick was tried before.
func (t *Ticker) prepare(ctx context.Context, key string, e *Entry, f *firing) (step, bool) {
	now := t.now()
	message := e.fields["message"]
	if old := t.trying[key][f.tick.Unix()]; old != nil && f.what == "pushed" && old.jid != "" && old.message == message {
		f = old
	} else if f.what == "pushed" {
		p, err := e.Job(f.tick, now, t.Form)
		if err == nil {
			p, err = t.Client.Prepare(ctx, p, now)
		}
		switch {
		case err != nil:
			t.wrong(e, fmt.Errorf("make the job of %s: %w", f.tick.UTC().Format(markForm), err))
			t.Stale() // try it again
			return step{}, false
		case p == nil:
			f.what = "stopped"
		default:
			if e.Overlap == troupe.OverlapSkip && !redisconn.OnCluster(t.Store.Redis) {
				f.lock = job.LockBy(p, "periodic "+key)
			}
			f.job, f.jid, f.queue, f.message = string(p.Bytes()), p.JID(), p.Queue(), message
		}
	}
	if f.queue == "" {
		f.queue = e.Queue
	}
	s := step{e: e, f: f, late: now.Sub(f.tick), keys: []string{key, keys.PeriodicMarks(key), keys.PeriodicHistory(key)}}
	if !redisconn.OnCluster(t.Store.Redis) {
		s.keys = append(s.keys, keys.Queues, keys.Queue(f.queue))
	}
	last, _ := job.EncodeJSON(Tick{At: f.tick, What: f.what, JID: f.jid, Late: s.late, Missed: f.missed}) // numbers and texts of ours
	s.args = []any{
		e.fields["status"], e.fields["cron"], e.fields["message"], f.tick.UTC().Format(markForm), f.tick.Unix(),
		f.job, f.queue, now.UTC().Format(pushForm), pushLine(f.jid, now), last,
	}
	shared := e.Shared && f.what != "disabled" && !redisconn.OnCluster(t.Store.Redis) // then Ruby's client is of no use
	switch {
	case f.lock != nil:
		held, _ := job.EncodeJSON(Tick{At: f.tick, What: overlapped, Late: s.late, Missed: f.missed}) // likewise
		s.keys = append(s.keys, f.lock.Key, keys.Conflicts)
		s.args = append(s.args, f.lock.JID, f.lock.For.Milliseconds(), held, keys.MaxConflicts)
	case shared:
		s.keys, s.args = append(s.keys, key, key), append(s.args, "", 0, "", 0)
	}
	if shared {
		s.keys, s.args = append(s.keys, keys.SchedulerPushed(e.Name), keys.SchedulerStates), append(s.args, e.Name, e.state)
	}
	return s, true
}

// carryOut sends steps and tells of those that this process has done.
func (t *Ticker) carryOut(ctx context.Context, steps []step) error {
	cmds := make([]*redis.Cmd, len(steps))
	for _, s := range steps {
		if t.trying[s.e.key] == nil {
			t.trying[s.e.key] = map[int64]*firing{}
		}
		t.trying[s.e.key][s.f.tick.Unix()] = s.f
	}
	_, err := t.Store.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, s := range steps {
			cmds[i] = p.EvalSha(ctx, tickScript.Hash(), s.keys, s.args...)
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return fmt.Errorf("tick: %w", err)
	}
	var failed error
	for i, s := range steps {
		if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
			cmds[i] = tickScript.Run(ctx, t.Store.Redis, s.keys, s.args...)
		}
		reply, err := cmds[i].StringSlice()
		if err == nil {
			err = t.answered(ctx, s, reply)
		} else {
			err = fmt.Errorf("tick %s: %w", s.f.tick.UTC().Format(markForm), err)
		}
		failed = errors.Join(failed, t.own(s.e, err))
	}
	return failed
}

// own tells of an error that is the entry's alone, such as a queue whose key is no list, and has it
// tried again; other errors it returns.
func (t *Ticker) own(e *Entry, err error) error {
	if err == nil || redisconn.Classify(err) != redisconn.Command {
		return err
	}
	t.wrong(e, err)
	t.Stale()
	return nil
}

// answered notes what the script has done.
func (t *Ticker) answered(ctx context.Context, s step, reply []string) error {
	if len(reply) < 3 {
		return fmt.Errorf("tick.lua: unexpected reply of %d values", len(reply))
	}
	delete(t.trying[s.e.key], s.f.tick.Unix())
	what, newest := reply[0], reply[1]
	if what == overlapped {
		s.f.what, s.f.jid = overlapped, ""
	}
	if what == "pushed" || what == "marked" || what == overlapped || what == "done" {
		s.e.Last = &Tick{At: s.f.tick, What: s.f.what, JID: s.f.jid, Late: s.late, Missed: s.f.missed}
	}
	if mark, err := time.Parse(markForm, newest); err == nil {
		s.e.Mark = mark
	}
	switch {
	case what == "changed", what == "early":
		t.Stale()
		return nil
	case what == "pushed" && len(reply) > 3: // those go first: a queue takes no tick after a later one
		t.Stale()
		t.Ticked(s.e, *s.e.Last)
		return nil // what they wait for was told
	case what == "pushed" && redisconn.OnCluster(t.Store.Redis):
		tick := strconv.FormatInt(s.f.tick.Unix(), 10)
		if err := t.push(ctx, s.e, tick, s.f.queue, s.f.job); err != nil {
			return err
		}
	case what == "done" && (s.f.jid == "" || pushOf(reply[2]).JID != s.f.jid): // else it was this process, and the answer was lost
		return nil
	}
	delete(t.told, s.e.key)
	t.Ticked(s.e, *s.e.Last)
	return nil
}
