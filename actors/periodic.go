package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/periodic"
	"github.com/troupehq/troupe/internal/redisconn"
)

// periodicPart is what an outage shows of the periodic jobs.
const periodicPart = pollerPart + "/periodic"

// keepEvery is the time between two looks whether Redis still has the entries of Config.Periodic.
const keepEvery = 30 * time.Second

// ticking carries out the periodic jobs of Redis while its process leads the scheduler, and writes
// those of Config.Periodic.
type ticking struct {
	d      *Daemon
	s      *system
	store  *periodic.Store
	ticker *periodic.Ticker
	loop   int // of tick, in the poller
}

// written is what is known of the entries of Config.Periodic, whatever becomes of the poller.
type written struct {
	began  atomic.Bool // this process has written them
	logged atomic.Bool // a line says that another process has other entries
	denied atomic.Bool // Redis has refused the user a call
}

func newTicking(d *Daemon, s *system) *ticking {
	t := &ticking{d: d, s: s}
	known := func(class string) bool { _, ok := d.cfg.Registry.Lookup(class); return ok }
	crypt, _ := job.NewCrypt(d.cfg.Encryption) // validated
	t.store = &periodic.Store{Redis: s.redis, Zone: d.cfg.Zone, Known: known, Crypt: crypt}
	t.ticker = &periodic.Ticker{Store: t.store, Client: s.pushes, Form: d.cfg.Timestamps, Ticked: t.ticked, Wrong: t.wrong}
	return t
}

// tick sleeps until the next tick while this process leads, else until it does. It is woken by a
// change of an entry, too.
func (t *ticking) tick(l *supervised.Loop) {
	const never = time.Duration(-1)
	for wait := never; l.Sleep(wait); {
		if !t.s.sched.Leads(keys.Schedule) {
			t.d.env.Outage.Leave(periodicPart)
			wait = never
			continue
		}
		call, cancel := env.Within(l.Context)
		next, err := t.ticker.Step(call)
		cancel()
		if wait = next; err == nil {
			t.d.env.Outage.OK(periodicPart)
			continue
		}
		wait = t.failed(l.Context, periodicPart, err)
	}
}

// failed tells that Redis did not carry out a call, and returns when to try again. A user who may not do it is no
// outage, which would take the daemon out of service: its jobs run.
func (t *ticking) failed(ctx context.Context, part string, err error) time.Duration {
	if redisconn.Classify(err) == redisconn.Auth {
		t.d.env.Outage.Leave(part)
		if !t.d.written.denied.Swap(true) {
			t.d.env.Log.Warn().Str("actor", pollerPart).Str("error", err.Error()).Msg("the user of Redis may not carry out periodic jobs: this process pushes none")
		}
		return keepEvery
	}
	if ctx.Err() == nil {
		t.d.env.Outage.Failed(part, err)
	}
	return time.Second
}

// keep writes the entries of Config.Periodic when the daemon starts, and again when Redis has
// forgotten them; what people have changed meanwhile stays.
func (t *ticking) keep(l *supervised.Loop) {
	for wait := time.Duration(0); l.Sleep(wait); {
		same, err := t.write(l.Context, !t.d.written.began.Load())
		if wait = keepEvery; err != nil {
			wait = t.failed(l.Context, periodicPart+"/entries", err)
			continue
		}
		if t.d.written.began.Load() && !same && !t.d.written.logged.Swap(true) {
			t.d.env.Log.Info().Str("actor", pollerPart).Str("tag", t.d.cfg.PeriodicTag).
				Msg("another process with this tag has other periodic jobs: a newer release, or one that needs a tag of its own")
		}
		t.d.written.began.Store(true)
	}
}

// write tells whether Redis has the entries of this configuration.
func (t *ticking) write(ctx context.Context, must bool) (same bool, err error) {
	call, cancel := env.Within(ctx)
	defer cancel()
	cfg := &t.d.cfg
	known, same, err := t.store.Written(call, cfg.PeriodicTag, cfg.Periodic)
	var removed []string
	if err == nil && (must || !known) {
		removed, err = t.store.Sync(call, cfg.PeriodicTag, cfg.Periodic)
		same = true
	}
	if err != nil {
		return false, err
	}
	t.d.env.Outage.OK(periodicPart + "/entries")
	if len(removed) > 0 {
		t.d.env.Log.Warn().Str("actor", pollerPart).Str("tag", cfg.PeriodicTag).Strs("names", removed).
			Msg("took away periodic jobs that the configuration of this tag no longer has")
	}
	if !known && !must {
		t.d.env.Log.Warn().Str("actor", pollerPart).Int("entries", len(cfg.Periodic)).Msg("wrote the periodic jobs again: Redis had forgotten them, or Ruby's sidekiq-cron keeps its own in another namespace")
	}
	return same, nil
}

// checkPeriodic finds the faults of Periodic.
func (c *Config) checkPeriodic() (errs []error) {
	if len(c.Periodic) > 0 && len(c.Capsules) > 0 && !slices.ContainsFunc(c.Capsules, func(k Capsule) bool { return k.Wire == nil }) {
		errs = append(errs, errors.New("config: Periodic: periodic jobs are Sidekiq's, and no capsule speaks its wire: expected none, or a capsule without Wire"))
	}
	if len(c.Periodic) > 0 && c.PeriodicElsewhere {
		errs = append(errs, errors.New("config: PeriodicElsewhere is true beside Periodic, expected one of the two"))
	}
	seen := map[[2]string]bool{}
	for i, p := range c.Periodic {
		err := periodic.Check(p, c.Zone)
		if err == nil && len(c.Encryption.Keys) == 0 && periodic.Seals(p) {
			err = errors.New("its class has Encrypt, expected keys in Encryption")
		}
		if err == nil {
			err = periodic.CheckCluster(p, redisconn.OnCluster(c.Redis))
		}
		if id := [2]string{p.Namespace, p.Name}; err == nil && seen[id] {
			err = errors.New("its name is there twice, expected one of each")
		} else {
			seen[id] = true
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("config: Periodic[%d] %q: %w", i, p.Name, err))
		}
	}
	return errs
}

// periodicNames are those of Periodic.
func (c *Config) periodicNames() (names []string) {
	for _, p := range c.Periodic {
		names = append(names, p.Name)
	}
	return names
}

func (t *ticking) ticked(e *periodic.Entry, tick periodic.Tick) {
	t.d.events.publish(event.PeriodicTicked{
		At: time.Now(), Name: e.Name, Tick: tick.At, What: tick.What, Late: tick.Late, Missed: tick.Missed,
		Job: event.JobRef{JID: tick.JID, Class: e.Class, Queue: e.Queue},
	})
	level := zerolog.DebugLevel
	if tick.Missed > 0 || tick.What == "missed" {
		level = zerolog.WarnLevel
	}
	t.d.env.Log.WithLevel(level).Str("actor", pollerPart).Str("periodic", e.Name).Time("tick", tick.At).Str("jid", tick.JID).Dur("late", tick.Late).
		Int("missed", tick.Missed).Msg("tick of a periodic job: " + tick.What)
}

func (t *ticking) wrong(e *periodic.Entry, why error) {
	t.d.events.publish(event.PeriodicStuck{At: time.Now(), Name: e.Name, Err: why})
	level := zerolog.WarnLevel
	if e.Ruby != "" {
		level = zerolog.InfoLevel
	}
	t.d.env.Log.WithLevel(level).Str("actor", pollerPart).Str("periodic", e.Name).Str("error", why.Error()).Msg("a periodic job is not pushed by this process")
}
