package sched

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/keys"
)

const (
	lockLife    = 1800 * time.Millisecond
	lookPause   = 500 * time.Millisecond // the leader's, and how far ahead it looks
	hearPause   = 100 * time.Millisecond // between two subscriptions
	hearSilence = 10 * time.Second       // after that Redis is asked whether the connection is there
	renewPause  = 2 * lookPause          // what a renewal that is lost leaves is time for another one
	ringPause   = 50 * time.Millisecond  // at most 20 looks a second because of pushes
	standbyLife = 2 * lockLife           // it calls at each end of the leader's lock
	callTimeout = 800 * time.Millisecond

	// A process that is neither leader nor standby asks for a lock this often: some
	// one question a second of a fleet in all. It matters when both die at once.
	otherPause    = 3 * time.Second
	otherPauseAdd = time.Second // per process of the fleet
	otherPauseMax = time.Minute
)

// What Lead calls due with beside the names of sets: for the periodic jobs, and for limits that hold jobs.
const (
	Periodic = "periodic"
	Limits   = "limits"
)

// term is a lock and the sets that its holder leads.
type term struct {
	lock, standby string // keys
	sets          []string
	leads         atomic.Bool // this process does

	// For Lead only:
	called, at, sure time.Time // the last call, the next one, until when the lock is held for sure
	renew            time.Time // when the lock is to be renewed
	bare             bool      // the sets were not there at the last call that looked
}

// Lead waits for the leader's lock and holds it, until ctx ends (nil) or Redis fails
// (an error; call it again after a while). It returns within a second after ctx has
// ended. While it leads it calls due when members of a set are due: Promote then,
// until there are no more. It calls due with Periodic and Limits when it has begun to lead the schedule, and when a periodic
// job was changed, or a limit has begun to hold jobs. due is never called concurrently; it must not block. A Lead waits until the one
// before it has ended.
//
// The leader asks Redis every 500 ms, at the next due score, and when a client of
// troupe has pushed something for later. One other process, the standby, calls when
// the leader's lock ends, the rest of the fleet once a second in all. On a cluster
// each set has a leader.
func (s *Scheduler) Lead(ctx context.Context, due func(set string)) error {
	switch s.cfg.Redis.(type) {
	case *redis.Client, *redis.ClusterClient:
	default:
		return fmt.Errorf("lead: got a %T, want a *redis.Client or a *redis.ClusterClient", s.cfg.Redis)
	}
	if s.cfg.Identity == "" {
		return errors.New("lead: Config.Identity is empty")
	}
	select {
	case s.leading <- struct{}{}:
		defer func() { <-s.leading }()
	case <-ctx.Done():
		return nil
	}
	if ctx.Err() != nil { // both were ready: nothing is held that would have to be given up
		return nil
	}
	if err := s.lead(ctx, due); err != nil && ctx.Err() == nil {
		return fmt.Errorf("lead schedule and retry: %w", err)
	}
	return nil
}

// Leads tells whether this process leads a set: then it hears of all that becomes due there.
func (s *Scheduler) Leads(set string) bool {
	cur := s.cursors[set]
	return cur != nil && cur.term.leads.Load()
}

func (s *Scheduler) lead(ctx context.Context, due func(string)) (err error) {
	var wake <-chan struct{} // nil while this process does not lead
	var changed <-chan string
	silence := func() {}
	defer func() {
		silence()
		for _, t := range s.terms {
			t.leads.Store(false)
			t.at = time.Time{}
			if err == nil || ctx.Err() != nil { // else the locks end by themselves
				_, _ = s.due(context.WithoutCancel(ctx), ask{term: t, as: s.cfg.Identity, timeout: callTimeout / 4})
			}
		}
	}()
	for ctx.Err() == nil {
		next, leads := time.Now().Add(otherPauseMax), false
		for _, t := range s.terms {
			if !time.Now().Before(t.at) {
				if err := s.call(ctx, t, due); err != nil {
					return err
				}
			}
			leads = leads || t.leads.Load()
			next = earliest(next, t.at)
		}
		switch {
		case leads && wake == nil:
			wake, changed, silence = s.listen(ctx)
		case !leads && wake != nil:
			silence()
			wake, changed = nil, nil
		}
		if s.told(changed, wake, due) { // before the time: else chance would say which of them is first
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)):
		case what := <-changed:
			s.changed(what, due)
		case <-wake:
			s.soon()
		}
	}
	return nil
}

// told sees to one thing that was told already; false for none.
func (s *Scheduler) told(changed <-chan string, wake <-chan struct{}, due func(string)) bool {
	select {
	case what := <-changed:
		s.changed(what, due)
		return true
	default:
	}
	select {
	case <-wake:
		s.soon()
		return true
	default:
		return false
	}
}

// changed sees to what has changed.
func (s *Scheduler) changed(what string, due func(string)) {
	if what != began {
		due(what)
		return
	}
	due(Periodic)
	due(Limits)
	s.soon()
}

// soon has the sets looked at that this process leads.
func (s *Scheduler) soon() {
	for _, t := range s.terms {
		if t.leads.Load() {
			t.at = earliest(t.at, t.called.Add(ringPause))
		}
	}
}

// call asks once and says when to ask again. The lock is renewed by every other look of the
// leader; a look between two of them that expects no set asks for nothing else.
func (s *Scheduler) call(ctx context.Context, t *term, due func(set string)) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t.called = time.Now()
	a := ask{term: t, as: s.cfg.Identity, lock: lockLife, ahead: lookPause, sets: t.sets, timeout: callTimeout}
	held := t.leads.Load() && t.called.Before(t.renew)
	if held {
		a.as = ""
	}
	for _, set := range t.sets {
		a.from = append(a.from, s.cursors[set].lowest(t.called))
	}
	var err error
	got := answer{bare: held && t.bare}
	if got.bare {
		got.bare, err = s.absent(ctx, t)
	}
	if !got.bare && err == nil {
		got, err = s.due(ctx, a)
	}
	if held {
		got.role = leader
	}
	if err != nil {
		t.at = t.called.Add(lookPause)
		if t.leads.Load() && t.at.Before(t.sure) {
			return nil // the lock is there for another try
		}
		return err
	}
	if leads := got.role == leader; t.leads.Swap(leads) != leads && leads && slices.Contains(t.sets, keys.Schedule) {
		due(Periodic)
		due(Limits)
	}
	switch got.role {
	case leader:
		if !held {
			t.sure, t.renew = t.called.Add(lockLife), t.called.Add(renewPause)
		}
		t.at, t.bare = t.called.Add(lookPause), got.bare
		for i, f := range got.sets {
			if f.size > 0 || f.err != nil { // what is wrong with a set, Promote reports
				due(t.sets[i])
			}
			if !f.next.IsZero() {
				t.at = earliest(t.at, time.Now().Add(max(f.next.Sub(got.now), time.Microsecond)))
			}
		}
	case standby:
		t.at = time.Now().Add(min(max(got.left, time.Millisecond), lockLife))
	default:
		pause := min(max(otherPause, time.Duration(s.fleet.Load())*otherPauseAdd), otherPauseMax)
		t.at = time.Now().Add(pause*3/4 + time.Duration(jitter.Rand(s.cfg.Identity, t.lock).Int64N(int64(pause/2))))
	}
	return nil
}

// absent tells whether none of the sets is there.
func (s *Scheduler) absent(ctx context.Context, t *term) (bool, error) {
	n, err := s.cfg.Redis.Exists(ctx, t.sets...).Result()
	return n == 0, err
}

// listen rings, until stop is called: wake whenever a client of troupe has pushed something for
// later, changed whenever a periodic job was changed or a limit has begun to hold jobs, and with began when a subscription has begun: what
// was told before is not known.
func (s *Scheduler) listen(ctx context.Context) (wake <-chan struct{}, changed <-chan string, stop func()) {
	pushes, changes := make(chan struct{}, 1), make(chan string, 16)
	ctx, stop = context.WithCancel(ctx)
	go func() {
		for ctx.Err() == nil {
			s.hear(ctx, func(what string) {
				switch what {
				case keys.PeriodicChanged, keys.LimitsChanged, began:
					select {
					case changes <- what:
					default:
					}
				default:
					select {
					case pushes <- struct{}{}:
					default:
					}
				}
			})
			select {
			case <-ctx.Done():
			case <-time.After(hearPause):
			}
		}
	}()
	return pushes, changes, stop
}

// began is what listen tells of a subscription that has begun.
const began = ""

// hear keeps one subscription, until it fails or ctx ends. It tells what was published, and began. go-redis
// subscribes again by itself when a connection has ended, but not when Redis has refused that.
func (s *Scheduler) hear(ctx context.Context, told func(what string)) {
	channel := s.cfg.Redis.Subscribe(ctx, keys.Wakeup)
	defer context.AfterFunc(ctx, func() { _ = channel.Close() })()
	defer func() { _ = channel.Close() }()
	for asked := false; ; {
		got, err := channel.ReceiveTimeout(ctx, hearSilence)
		var late net.Error
		switch {
		case errors.As(err, &late) && late.Timeout() && !asked:
			if asked = true; channel.Ping(ctx) != nil {
				return
			}
			continue
		case err != nil:
			return
		}
		asked = false
		switch got := got.(type) {
		case *redis.Subscription:
			told(began)
		case *redis.Message:
			told(got.Payload)
		}
	}
}

// Processes counts the processes of the fleet, Ruby's included: the input of
// the poll interval.
func (s *Scheduler) Processes(ctx context.Context) (int, error) {
	n, err := s.cfg.Redis.SCard(ctx, keys.Processes).Result()
	if err != nil {
		return 0, fmt.Errorf("count processes: %w", err)
	}
	s.fleet.Store(n)
	return int(n), nil
}

// earliest ignores zero times.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
