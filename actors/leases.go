package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
)

// rides are renewals that travel with other commands; see fetch.Rider.
type rides []ride

type ride struct {
	c   *capsule
	end func() (fetch.Seen, error)
}

// opened are the capsules whose fetchers are registered.
func (d *Daemon) opened() (all []*capsule) {
	for _, c := range d.capsules {
		c.mu.Lock()
		if c.opened {
			all = append(all, c)
		}
		c.mu.Unlock()
	}
	return all
}

// board adds the renewals that can travel with p.
func (d *Daemon) board(ctx context.Context, p redis.Pipeliner, rs *rides) {
	for _, c := range d.opened() {
		if f, ok := c.fetcher.(fetch.Rider); ok {
			if end := f.Ride(ctx, p); end != nil {
				*rs = append(*rs, ride{c, end})
			}
		}
	}
}

// alight ends what has boarded, renews by itself what Redis has refused, and
// tells whether the lease of every capsule is renewed. What the renewals have
// seen wakes the rescuer.
func (d *Daemon) alight(ctx context.Context, rs rides) bool {
	renewed, work := 0, false
	for _, r := range rs {
		seen, err := r.end()
		if _, refused := err.(redis.Error); refused { //nolint:errorlint // it is never wrapped
			err = r.c.fetcher.Renew(ctx)
		}
		if r.c.renewed(err) {
			renewed++
		}
		work = work || seen.Expired || seen.Suspects && !d.hushed.Load() && !d.isolating.Load()
	}
	all := renewed > 0 && renewed == len(d.opened())
	if all {
		d.beats.told.Store(time.Now().UnixNano())
	}
	if work {
		d.root().Send(actor.NewPID(d.sys.Load().Address(), launcherName+"/rescuer"), wake{})
	}
	return all
}

// told tells whether renewals look for the rescuer.
func (d *Daemon) told() bool {
	return time.Since(time.Unix(0, d.beats.told.Load())) < d.cfg.Lease
}

// renewLeases gives every fetcher's sign of life: in one round trip those that
// can, the others one by one.
func (d *Daemon) renewLeases() {
	ctx, cancel := d.redisContext()
	defer cancel()
	var company rides
	defer func() {
		if d.alight(ctx, company) {
			return
		}
		for _, c := range d.opened() {
			if !company.has(c) {
				c.renew()
			}
		}
	}()
	_, _ = d.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		d.board(ctx, p, &company)
		return nil
	})
}

func (rs rides) has(c *capsule) bool {
	for _, r := range rs {
		if r.c == c {
			return true
		}
	}
	return false
}

// renew is a renewal in a round trip of its own.
func (c *capsule) renew() {
	ctx, cancel := c.d.redisContext()
	defer cancel()
	c.renewed(c.fetcher.Renew(ctx))
}

// renewed takes the outcome of a renewal.
func (c *capsule) renewed(err error) bool {
	part := c.path("lease")
	switch {
	case fenced(err):
		c.onFenced(err)
	case err != nil:
		c.d.outage.failed(part, err)
		return false
	default:
		c.d.outage.ok(part)
	}
	return true
}
