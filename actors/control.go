package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/words"
)

// Cancel ends the job with this jid and tells whether this process has it. Of one that runs the
// context ends, with the cause troupe.ErrCancelled: what becomes of the job is its handler's affair.
// One that was fetched and has not begun is deleted and does not run; an iterable job that has begun
// before stays, and ends when it runs next. A call to Redis is made for those two, and waited for.
func (d *Daemon) Cancel(jid string) bool {
	ctx, cancel := d.env.Call()
	defer cancel()
	if d.cancelRunning(jid) {
		return true
	}
	found, _, _ := d.cancelFetched(ctx, jid)
	return found || d.cancelRunning(jid) // it may have begun just now
}

// cancelRunning ends the context of a job that runs here.
func (d *Daemon) cancelRunning(jid string) (found bool) {
	for _, c := range d.capsules {
		for _, w := range c.pool.inHand() {
			ref := w.Job.Ref()
			if ref.JID != jid || ref.Started.IsZero() {
				continue
			}
			found = true
			w.Job.Interrupt(troupe.ErrCancelled)
			c.events.publish(event.JobCancelled{JobEvent: event.JobEvent{At: time.Now(), Actor: w.slot.path, Capsule: c.cfg.Name, Job: ref}})
			d.env.Log.Warn().Str("jid", ref.JID).Str("class", ref.Class).Str("capsule", c.cfg.Name).Msg("a job is cancelled on demand")
		}
	}
	return found
}

// cancelFetched deletes a job that was fetched and that no worker has. An iterable one that has begun before is
// asked to end by its state, and stays.
func (d *Daemon) cancelFetched(ctx context.Context, jid string) (found, deleted bool, err error) {
	for _, c := range d.capsules {
		w := c.pool.unbegun(jid)
		if w == nil {
			continue
		}
		begun, err := c.system.redis.Exists(ctx, keys.Iteration(jid)).Result()
		if err == nil && begun > 0 {
			_, err = job.CancelIteration(ctx, c.system.redis, jid, time.Now())
		}
		if err != nil || begun > 0 {
			return true, false, err
		}
		if !c.pool.withdraw(w) { // a worker was faster, or it is on its way back
			return false, false, nil
		}
		if !c.runs.Drop(ctx, w) {
			return true, false, errors.New("the job does not run here, but Redis has not confirmed that it is deleted")
		}
		ref := w.Job.Ref()
		c.events.publish(event.JobCancelled{JobEvent: event.JobEvent{At: time.Now(), Actor: c.Path(), Capsule: c.cfg.Name, Job: ref}, Deleted: true})
		d.env.Log.Warn().Str("jid", words.Text(ref.JID)).Str("class", words.Text(ref.Class)).Str("capsule", c.cfg.Name).Msg("a job that had not begun is deleted on demand")
		return true, true, nil
	}
	return false, false, nil
}

// Configure gives running capsules the Concurrency and the Queues of those of the same name
// here; 0 and nil keep what is. Nothing else can change, and fields of other meaning are not
// looked at. With fewer processors running jobs end as they are. Queues cannot change if the
// capsule's fetcher is no fetch.QueueSetter.
//
// Everything is checked first: after an error of that nothing has changed. An error of Redis
// may leave some capsules changed.
func (d *Daemon) Configure(ctx context.Context, capsules ...Capsule) error {
	var errs []error
	changed := make([]*capsule, len(capsules))
	for i, k := range capsules {
		name := k.Name
		if name == "" {
			name = "default"
		}
		at := slices.IndexFunc(d.capsules, func(c *capsule) bool { return c.cfg.Name == name })
		if at < 0 {
			errs = append(errs, fmt.Errorf("capsule %q does not run here, expected one of %q: another takes a restart", name, d.capsuleNames()))
			continue
		}
		changed[i] = d.capsules[at]
		if k.Concurrency < 0 || k.Concurrency > limits.MaxConcurrency {
			errs = append(errs, fmt.Errorf("capsule %s: Concurrency is %d, expected 1 to %d, or 0 to keep it", name, k.Concurrency, limits.MaxConcurrency))
		}
		if k.Queues == nil {
			continue
		}
		if err := limits.Queues(k.Queues.List().Names()); err != nil {
			errs = append(errs, fmt.Errorf("capsule %s: Queues: %w", name, err))
		}
		if _, ok := changed[i].fetcher.(fetch.QueueSetter); !ok && !sameQueues(changed[i].config().Queues, k.Queues) {
			errs = append(errs, fmt.Errorf("capsule %s: Queues: its fetcher cannot change them: that takes a restart", name))
		}
	}
	next, fields := make([]Capsule, len(d.capsules)), make([]string, len(d.capsules))
	for i, c := range d.capsules {
		next[i], fields[i] = c.config(), "capsule "+c.cfg.Name+": "
		if at := slices.Index(changed, c); at >= 0 && capsules[at].Queues != nil {
			next[i].Queues = capsules[at].Queues
		}
	}
	errs = append(errs, checkUnknown(next, fields, d.cfg.Registry)...)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	for i, k := range capsules {
		if err := changed[i].configure(ctx, k.Concurrency, k.Queues); err != nil {
			return fmt.Errorf("configure: capsule %s: %w", changed[i].cfg.Name, err)
		}
	}
	d.mu.Lock()
	d.info.Capsules = d.capsuleInfo()
	d.mu.Unlock()
	d.env.System.Send(heart, supervised.Wake{}) // show it
	return nil
}

// sameQueues tells whether two are the same queues with the same weights.
func sameQueues(a, b fetch.Queues) bool { return slices.Equal(a.List(), b.List()) }

// configure carries out what Configure has checked. What it is not asked to change stays as it
// is at the end: another call may change it meanwhile. Changes of the queues are made one after
// the other, so that the capsule has the queues that its fetcher has.
func (c *capsule) configure(ctx context.Context, n int, q fetch.Queues) error {
	if q != nil {
		select {
		case c.requeuing <- struct{}{}:
			defer func() { <-c.requeuing }()
		case <-ctx.Done():
			return ctx.Err()
		}
		if sameQueues(c.config().Queues, q) {
			q = nil
		} else if err := c.fetcher.(fetch.QueueSetter).SetQueues(ctx, q); err != nil { //nolint:forcetypeassert // checked
			return err
		}
	}
	was, is := c.change(n, q)
	if is.Concurrency == was.Concurrency && q == nil {
		return nil
	}
	c.env.System.Send(c.Path(), resized{})
	c.events.publish(event.CapsuleConfigured{At: time.Now(), Capsule: c.cfg.Name, Concurrency: is.Concurrency, Queues: is.Queues.List().Names()})
	c.env.Log.Info().Str("capsule", c.cfg.Name).Int("concurrency", is.Concurrency).Strs("queues", is.Queues.List().Names()).
		Int("concurrency_before", was.Concurrency).Strs("queues_before", was.Queues.List().Names()).Msg("the capsule was configured anew")
	return nil
}

// change gives the capsule n processors and the queues q; 0 and nil keep what is.
func (c *capsule) change(n int, q fetch.Queues) (was, is Capsule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was = c.cfg
	if n > 0 {
		c.cfg.Concurrency = n
	}
	if q != nil {
		c.cfg.Queues = q
		c.traffic.Expect(q.List().Names()...)
	}
	is = c.cfg
	if is.Concurrency == was.Concurrency && q == nil {
		return was, is
	}
	c.pool.resizeLocked(is.Concurrency)
	c.intake.changedLocked() // there may be jobs in the new queues
	return was, is
}

// config is the capsule's configuration of this moment.
func (c *capsule) config() Capsule {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg
}

// listen does what operators ask this process for. It waits on a connection of its own, which
// is closed when the loop is to end.
func (h *heartbeat) listen(l *supervised.Loop) {
	d := h.d
	own, err := redisconn.Derive(d.env.Redis, redisconn.Need{PoolSize: 1, Block: listenTime})
	if err != nil {
		return // New has derived one of the same kind
	}
	if d.cfg.OnClient != nil {
		d.cfg.OnClient(own)
	}
	defer context.AfterFunc(l.Context, func() { _ = own.Close() })()
	defer func() { _ = own.Close() }()
	for l.Sleep(0) {
		requests, err := control.Requests(l.Context, own, d.env.Identity, listenTime)
		switch {
		case redis.HasErrorPrefix(err, "NOPERM"): // told at the start
			return
		case err != nil && !l.Pause(listenPause): // whether Redis is away others find out
			return
		}
		for _, r := range requests {
			if r.Do == control.Look {
				h.once()
			}
			d.obey(r)
		}
	}
}

const (
	listenTime  = 15 * time.Second // how long one wait for requests lasts
	listenPause = 5 * time.Second  // between two of them, after an error
)

// obey carries a request out and replies.
func (d *Daemon) obey(r control.Request) {
	ctx, cancel := d.env.Call()
	defer cancel()
	reply := d.answer(ctx, r)
	if err := control.Answer(ctx, d.env.Redis, r, reply); err != nil {
		d.env.Log.Warn().Err(err).Str("request", r.Do).Msg("the reply to an operator could not be sent")
	}
}

// answer carries a request out.
func (d *Daemon) answer(ctx context.Context, r control.Request) control.Reply {
	reply := control.Reply{Process: d.env.Identity, Result: control.Done}
	switch {
	case r.Do == control.Look:
	case r.Do == control.Cancel:
		d.cancel(ctx, r, &reply)
	case r.Do == control.Configure && d.cfg.Embedded:
		reply.Result, reply.Why = control.Refused, "this process is embedded: its own program configures it"
	case r.Do == control.Configure:
		if err := d.Configure(ctx, d.requested(r)); err != nil {
			reply.Result, reply.Why = control.Refused, err.Error()
		}
	default:
		reply.Result, reply.Why = control.Refused, fmt.Sprintf("%q is not known to version %s", r.Do, Version)
	}
	return reply
}

// cancel carries out a request to cancel a job.
func (d *Daemon) cancel(ctx context.Context, r control.Request, reply *control.Reply) {
	if d.cancelRunning(r.JID) {
		return
	}
	reply.Result = control.NotMine
	if !r.Fetched {
		return
	}
	switch _, deleted, err := d.cancelFetched(ctx, r.JID); {
	case err != nil:
		reply.Result, reply.Why = control.Refused, err.Error()
	case deleted:
		reply.Result = control.Deleted
	}
}

// requested is the capsule that a request describes.
func (d *Daemon) requested(r control.Request) Capsule {
	k := Capsule{Name: r.Capsule, Concurrency: r.Concurrency}
	if k.Name == "" && len(d.capsules) == 1 {
		k.Name = d.capsules[0].cfg.Name
	}
	if r.Queues != nil {
		list := make(fetch.WeightedList, len(r.Queues))
		for i, q := range r.Queues {
			list[i] = fetch.QueueWeight{Queue: q.Queue, Weight: q.Weight}
		}
		k.Queues = list
	}
	return k
}
