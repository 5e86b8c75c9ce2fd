package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/wire"
)

// system is what the capsules of one wire share.
type system struct {
	of       *wire.Wire            // Capsule.Wire
	wire     *wire.Wire            // the same, the zero Wire for Sidekiq
	redis    redis.UniversalClient // on the keys of the wire; the daemon's own for Sidekiq
	onClient func(redis.UniversalClient)
	policy   retry.Policy
	sched    *sched.Scheduler // nil if the wire has a Fetch
	pushes   *client.Client   // of the poller; likewise
	rescue   *rescue.Rescuer  // likewise
	capsules []*capsule

	flusher *beat.Flusher // guarded by beats.lock
	counted beat.Counts   // what the flusher has been told of so far; likewise
}

// newSystem makes the system of w; nil is Sidekiq.
func newSystem(d *Daemon, w *wire.Wire) (_ *system, err error) {
	s := &system{of: w, wire: w, redis: d.env.Redis, onClient: d.cfg.OnClient, flusher: beat.NewFlusher(d.env.Identity)}
	if w == nil {
		s.wire = &wire.Wire{}
	}
	if rename := s.wire.Key; rename != nil {
		s.onClient = func(c redis.UniversalClient) {
			redisconn.MapKeys(c, rename)
			if d.cfg.OnClient != nil {
				d.cfg.OnClient(c)
			}
		}
		if s.redis, err = redisconn.Derive(d.cfg.Redis, redisOptions(d.cfg)); err != nil {
			return nil, fmt.Errorf("Redis: %w", err) //nolint:staticcheck // the name of a field
		}
		s.onClient(s.redis)
	}
	s.policy = retry.Policy{
		MaxRetries: d.cfg.MaxRetries, Timestamps: d.cfg.Timestamps,
		DeadMax: d.cfg.DeadMax, DeadTimeout: d.cfg.DeadTimeout, Rules: s.wire.Rules,
	}
	if s.wire.Fetch != nil {
		return s, nil
	}
	s.pushes = client.New(s.redis, client.WithMiddleware(d.cfg.ClientMiddleware...), client.WithTimestamps(d.cfg.Timestamps))
	if err := s.pushes.Err(); err != nil {
		return s, errors.Join(fmt.Errorf("ClientMiddleware: %w", err), s.close(d))
	}
	s.sched = sched.New(sched.Config{
		Redis: s.redis, Client: s.pushes,
		Prepare: func(set, queue string) promote { return d.promoter(s, set, queue) }, Timestamps: d.cfg.Timestamps, Logger: d.env.Log,
		Identity: d.env.Identity, DeadMax: d.cfg.DeadMax, DeadTimeout: d.cfg.DeadTimeout,
	})
	s.rescue, err = rescue.New(rescue.Config{
		Redis: s.redis, Lease: d.cfg.Lease, Identity: d.env.Identity, Logger: d.env.Log, Policy: d.poisonPolicy(s.policy), Window: d.cfg.Poison.Within, Grace: d.grace,
		QueueOf: rescue.QueueOf,
	})
	if err != nil {
		return s, errors.Join(err, s.close(d))
	}
	return s, nil
}

// systemOf is the system of w, made for the first capsule that asks.
func (d *Daemon) systemOf(w *wire.Wire) (*system, error) {
	for _, s := range d.systems {
		if s.of == w {
			return s, nil
		}
	}
	s, err := newSystem(d, w)
	if err == nil {
		d.systems = append(d.systems, s)
	}
	return s, err
}

// promote is wire.Wire.Promote.
type promote = func(p *troupe.Payload, now time.Time) (*troupe.Payload, error)

// promoter is how a due member of a set of s is made ready for queue: as the system does it whose
// capsule serves the queue, if both have the set in common, else as s does it.
func (d *Daemon) promoter(s *system, set, queue string) promote {
	for _, other := range d.systems {
		if other == s || other.sched == nil || other.key(set) != s.key(set) {
			continue
		}
		for _, c := range other.capsules {
			if slices.Contains(c.config().Queues.List().Names(), queue) {
				return other.wire.Promote
			}
		}
	}
	return s.wire.Promote
}

// key is what the system calls a key.
func (s *system) key(name string) string {
	if s.wire.Key == nil {
		return name
	}
	return s.wire.Key(name)
}

// counts are the jobs that have ended.
func (s *system) counts() (n beat.Counts) {
	for _, c := range s.capsules {
		processed, failed := c.pool.ended()
		n.Processed += int64(processed)
		n.Failed += int64(failed)
	}
	if s.wire.FailedApart {
		n.Processed -= n.Failed
	}
	return n
}

// flush writes the counts; what fails is kept for the next time.
func (s *system) flush(ctx context.Context, now time.Time) error {
	if s.wire.Fetch != nil {
		return nil
	}
	n, last := s.counts(), s.counted
	n.Processed = max(n.Processed, last.Processed) // one failed between the looks at the two counters
	s.counted = n
	return s.flusher.Flush(ctx, s.redis, beat.Counts{Processed: n.Processed - last.Processed, Failed: n.Failed - last.Failed}, now)
}

// close closes the client, unless it is the daemon's own.
func (s *system) close(d *Daemon) error {
	if s.redis == d.env.Redis {
		return nil
	}
	return s.redis.Close()
}
