package fetch

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Rider is a Fetcher whose renewal can travel with other commands: an idle
// process then makes one round trip for all of its signs of life, and learns on
// the way what it would have to ask for.
type Rider interface {
	Fetcher

	// Ride adds to p, a pipeline or a MULTI, what Renew does. end is to be called
	// once p has been sent, with or without success; when it returns an error the
	// lease is not known to be renewed, and Renew is the next to be called. It is
	// nil, and p as it was, while that has something to settle first.
	Ride(ctx context.Context, p redis.Pipeliner) (end func() (Seen, error))
}

// Seen is what a ride has come by.
type Seen struct {
	Expired  bool // the lease of a fetcher is over: there is work for a Rescuer
	Suspects bool // suspects of the fetcher's queues wait, or of paused ones: see Isolator
}

// Ride renews the lease on the way; see Rider.
func (f *reliable) Ride(ctx context.Context, p redis.Pipeliner) func() (Seen, error) {
	if !f.gate.enterNow() {
		return nil
	}
	f.mu.Lock()
	in, ready := f.cur, f.registered && !f.doubt && !f.amnesia && !f.closed
	stashed := len(f.suspects) > 0
	f.mu.Unlock()
	if !ready {
		f.gate.leave()
		return nil
	}
	lists := make([]string, len(f.names))
	for i, name := range f.names {
		lists[i] = keys.Queue(keys.Suspects(name))
	}
	renew := f.renewal(ctx, p, in)
	suspects := p.Exists(ctx, lists...)
	baton := f.bell.ride(ctx, p)
	return func() (Seen, error) {
		f.gate.leave()
		if baton != nil {
			f.bell.rode(baton)
		}
		expired, err := renew()
		if err != nil { // no doubt is left: a renewal that comes late takes nothing
			return Seen{}, err
		}
		return Seen{Expired: expired > 0, Suspects: stashed || suspects.Val() > 0}, nil
	}
}

// skewMax is how far off Redis's clock may be from where it is expected.
const skewMax = time.Second

// clock is Redis's, as a renewal has read it.
type clock struct {
	redis time.Time // what it showed; zero: not known
	local time.Time // when it was asked
}

// denial is an answer of Redis that is read out of plain replies.
type denial string

func (d denial) Error() string { return string(d) }

// RedisError makes it a redis.Error.
func (denial) RedisError() {}

// renewal adds to p what extends the lease and its entry in the index, and reads
// how many leases of the index are over. The first one is the script, and asks
// for the time; the others do by plain commands what it does, as a script in a
// Redis that sleeps costs it as much as all the rest of a beat. Unlike the script
// they tell of a refusal when they have moved an entry that is not ours any more:
// it is a rescuer's, who comes back to it a lease later, should he not be through.
func (f *reliable) renewal(ctx context.Context, p redis.Pipeliner, in *incarnation) (end func() (expired int, err error)) {
	asked := time.Now()
	f.mu.Lock()
	known, now := !f.clock.redis.IsZero(), f.clock.redis.Add(asked.Sub(f.clock.local))
	f.mu.Unlock()
	if !known {
		renew := renewScript.Queue(ctx, p, []string{keys.Procs, keys.Leases, in.lease}, in.id, in.generation, f.ttl)
		shown := p.Time(ctx)
		return func() (int, error) {
			f.set(clock{redis: shown.Val(), local: asked})
			return renew.Int()
		}
	}
	shown := p.Time(ctx)
	registered := p.HExists(ctx, keys.Procs, in.id)
	lease := p.GetEx(ctx, in.lease, f.env.Lease)
	written := p.ZAddXX(ctx, keys.Leases, redis.Z{Score: float64(now.Add(f.env.Lease).UnixMilli()), Member: in.id})
	indexed := p.ZScore(ctx, keys.Leases, in.id)
	expired := p.ZCount(ctx, keys.Leases, "-inf", strconv.FormatInt(now.UnixMilli(), 10))
	return func() (int, error) {
		f.set(clock{redis: shown.Val(), local: asked})
		switch err := cmp.Or(shown.Err(), registered.Err(), written.Err(), expired.Err()); {
		case err != nil:
			return 0, err
		case lease.Err() != nil && !errors.Is(lease.Err(), redis.Nil):
			return 0, lease.Err()
		case !registered.Val():
			return 0, denial("FENCED " + in.id + " is not registered")
		case lease.Val() != in.generation:
			return 0, denial("FENCED the lease holds " + strconv.Quote(lease.Val()) + ", expected " + in.generation)
		case indexed.Err() != nil:
			return 0, denial("ERR the index of leases lacks " + in.id)
		case shown.Val().Sub(now).Abs() > skewMax:
			return 0, denial("ERR the clock of the server was set")
		}
		return int(expired.Val()), nil
	}
}

// set notes what Redis's clock has shown; nothing, when the reply was lost.
func (f *reliable) set(c clock) {
	f.mu.Lock()
	f.clock = c
	f.mu.Unlock()
}
