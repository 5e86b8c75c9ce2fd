package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
)

// This file is about limits of jobs. What they allow stands in Redis: a daemon writes it before its first fetch, and its beats
// again where Redis has forgotten it. Jobs ask and leave in their runs; the beat renews the slots of those that run; the
// leader lets jobs in when room has come by itself: a token of a rate, or the end of a slot whose process has died.

const (
	limitsPart    = pollerPart + "/limits"
	letInBatch    = 256             // jobs of one call
	limitsEvery   = 5 * time.Second // between two looks while nothing is held: the leader is told of what is
	limitsFaulted = time.Second
)

// slotLife is how long a slot lives without a sign of life: until the jobs of a dead process are back, and no shorter than
// some beats.
func slotLife(cfg *Config) time.Duration {
	beats := 3 * cfg.HeartbeatInterval
	return max(cfg.Lease, beats) + limits.RescueEvery
}

// checkLimits finds the faults of QueueLimits, and of limits that differ by their name alone.
func (c *Config) checkLimits() (errs []error) {
	for _, queue := range slices.Sorted(maps.Keys(c.QueueLimits)) {
		for i, l := range c.QueueLimits[queue] {
			if err := l.Validate(); err != nil {
				errs = append(errs, fmt.Errorf("config: QueueLimits[%q][%d]: %w", queue, i, err))
			}
		}
	}
	all := c.limits()
	if _, err := job.LimitTexts(all...); err != nil {
		errs = append(errs, fmt.Errorf("config: %w", err))
	}
	for _, l := range all {
		if l.Throttled && redisconn.OnCluster(c.Redis) {
			errs = append(errs, fmt.Errorf("config: limit %q: Throttled is true, expected false on a Redis Cluster", l.Name))
		}
	}
	return errs
}

// limits are those of all classes and queues.
func (c *Config) limits() (all []troupe.Limit) {
	if c.Registry != nil {
		for _, name := range c.Registry.Classes() {
			entry, _ := c.Registry.Lookup(name)
			all = append(all, entry.Options.Limits...)
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(c.QueueLimits)) {
		all = append(all, c.QueueLimits[queue]...)
	}
	return all
}

// limitNames are the names of the limits, in their order.
func (c *Config) limitNames() (names []string) {
	for _, l := range c.limits() {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// canLimit tells why a capsule cannot keep limits; nil if it can.
func canLimit(c *capsule, all []troupe.Limit) error {
	if len(all) == 0 {
		return nil
	}
	if c.cfg.Wire != nil {
		return fmt.Errorf("config: capsule %q: limit %q is for jobs of Sidekiq's wire, and its jobs are those of %s: expected no limits in this daemon", c.cfg.Name, all[0].Name, c.cfg.Wire.Name)
	}
	if _, ok := c.fetcher.(fetch.Effector); !ok {
		return fmt.Errorf("config: capsule %q: a fetcher of type %T cannot keep limit %q, expected fetch.NewReliable", c.cfg.Name, c.fetcher, all[0].Name)
	}
	return nil
}

// limitBases begin the keys of the limits of the capsules' queues.
func (s *system) limitBases() (all []string) {
	cluster := redisconn.OnCluster(s.redis)
	for _, c := range s.capsules {
		for _, queue := range c.config().Queues.List().Names() {
			if base := keys.LimitBase(queue, cluster); !slices.Contains(all, base) {
				all = append(all, base)
			}
		}
	}
	return all
}

// defineLimits tells Redis what the limits of this configuration allow.
func (s *system) defineLimits(ctx context.Context, all []troupe.Limit, how job.Define) error {
	if len(all) == 0 {
		return nil
	}
	texts, err := job.LimitTexts(all...)
	for _, base := range s.limitBases() {
		if err == nil {
			_, err = job.DefineLimits(ctx, s.redis, base, how, texts)
		}
	}
	return err
}

// keepLimits writes limits that Redis has forgotten, and renews the slots of jobs that run.
func (d *Daemon) keepLimits(ctx context.Context) {
	if len(d.jobLimits()) == 0 {
		return
	}
	const part = heart + "/limits"
	if err := d.tryLimits(ctx); err != nil {
		d.env.Outage.Failed(part, err)
		return
	}
	d.env.Outage.OK(part)
}

// jobLimits returns the present limits of all classes and queues. A change makes a new list.
func (d *Daemon) jobLimits() []troupe.Limit {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limits
}

// ConfigureLimits changes the numbers of limits of this daemon: AtOnce, Rate, Per and Burst, and Failures and Rest of a Breaker. Limits are matched by name.
// It writes the numbers that differ to Redis, for all processes. A limit that was set by hand (inspect.Inspector.SetLimit) gets
// its new numbers only when it is reset. Held jobs are let in by the new numbers within 5 s. It is an error if this daemon has no limit of that name, or one of
// another kind (By, Throttled, a Key or a Breaker, at once or a rate); then nothing has changed. After an error of Redis some processes
// may know the new numbers.
func (d *Daemon) ConfigureLimits(ctx context.Context, all ...troupe.Limit) error {
	return d.alone(ctx, func() error { return d.configureLimits(ctx, all) })
}

// alone runs f, which tells Redis the numbers of limits, behind another one: old numbers must not come behind new ones.
func (d *Daemon) alone(ctx context.Context, f func() error) error {
	select {
	case d.defining <- struct{}{}: // a mutex would keep virtual time from going on
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-d.defining }()
	return f()
}

func (d *Daemon) configureLimits(ctx context.Context, all []troupe.Limit) error {
	before := d.jobLimits()
	next, changed := slices.Clone(before), []troupe.Limit(nil)
	var errs []error
	for _, l := range all {
		if err := l.Validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		known, differs := false, false
		for i := range next {
			if next[i].Name != l.Name {
				continue
			}
			if known = true; !job.SameKind(&next[i], &l) {
				errs = append(errs, fmt.Errorf("limit %q is of another kind: that takes a restart", l.Name))
				break
			}
			differs = differs || job.LimitText(next[i]) != job.LimitText(l)
			next[i].AtOnce, next[i].Rate, next[i].Per, next[i].Burst = l.AtOnce, l.Rate, l.Per, l.Burst
			if b := next[i].Breaker; b != nil {
				next[i].Breaker = &troupe.Breaker{Failures: l.Breaker.Failures, Rest: l.Breaker.Rest, Counts: b.Counts}
			}
		}
		if !known {
			errs = append(errs, fmt.Errorf("limit %q is not of this daemon: that takes a restart", l.Name))
		} else if differs {
			changed = append(changed, l)
		}
	}
	if _, err := job.LimitTexts(all...); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	for _, s := range d.systems {
		if s.of == nil {
			if err := s.defineLimits(ctx, changed, job.DefineStart); err != nil {
				return fmt.Errorf("configure: %w", err)
			}
		}
	}
	d.mu.Lock()
	d.limits = next
	d.mu.Unlock()
	for _, l := range changed {
		d.env.Log.Info().Str("limit", l.Name).Str("allows", job.LimitText(l)).Msg("the numbers of a limit have changed")
	}
	return nil
}

// limitedRuns are the runs that have slots, by the limits that they are under.
func (d *Daemon) limitedRuns() map[*job.Rules]*run.Run {
	runs := map[*job.Rules]*run.Run{}
	for _, c := range d.capsules {
		_, given := c.runs.Unresponsive()
		for _, w := range c.pool.inHand() {
			given = append(given, w.Item)
		}
		for _, w := range given {
			if r, ok := w.Job.(*run.Run); ok {
				if rules := r.Rules(); rules != nil {
					runs[rules] = r
				}
			}
		}
	}
	return runs
}

func (d *Daemon) tryLimits(ctx context.Context) error {
	runs := d.limitedRuns()
	inOrder := slices.SortedFunc(maps.Keys(runs), func(a, b *job.Rules) int { return cmp.Compare(a.JID+a.As, b.JID+b.As) })
	for _, s := range d.systems {
		if s.of != nil {
			continue
		}
		if err := s.defineLimits(ctx, d.jobLimits(), job.DefineKeep); err != nil {
			return err
		}
		gone, err := job.RenewSlots(ctx, s.redis, inOrder, slotLife(&d.cfg))
		if err != nil {
			return err
		}
		for _, rules := range inOrder {
			if again := gone[rules]; again != nil && rules.As == "" {
				runs[rules].Enter(again)
			}
		}
	}
	return nil
}

// letIn lets held jobs in when a rule is due, while this process leads.
func (p *poller) letIn(l *supervised.Loop, s *system) {
	for wait := limitsEvery; l.Sleep(wait); {
		wait = limitsEvery
		if !s.sched.Leads(keys.Schedule) {
			p.env.Outage.Leave(limitsPart)
			continue
		}
		for _, base := range s.limitBases() {
			next, err := p.letInOnce(l.Context, s, base)
			switch {
			case err != nil:
				wait = min(wait, limitsFaulted)
			case next >= 0:
				wait = min(wait, next)
			}
		}
	}
}

// letInOnce tells when the next rule is due; below 0: none holds jobs.
func (p *poller) letInOnce(ctx context.Context, s *system, base string) (time.Duration, error) {
	call, cancel := env.Within(ctx)
	defer cancel()
	_, next, err := job.LetIn(call, s.redis, base, letInBatch)
	if err != nil {
		if ctx.Err() == nil && redisconn.Classify(err) != redisconn.Auth {
			p.env.Outage.Failed(limitsPart, err)
		}
		return 0, err
	}
	p.env.Outage.OK(limitsPart)
	return next, nil
}
