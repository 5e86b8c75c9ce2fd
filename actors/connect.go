package actors

import (
	"reflect"
	"time"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rights"
)

// blockTime is the longest blocking command of the fetchers.
const blockTime = 5 * time.Second

// minRest is for beats that follow each other closely.
const minRest = 10 * time.Second

// redisOptions tells what connections the daemon needs: one per peeked queue of
// each capsule, and a few for its own calls.
func redisOptions(cfg Config) redisconn.Need {
	n := 10
	for _, k := range cfg.Capsules {
		n += len(k.Queues.List().Names()) + 3
	}
	// Of these a take and a settlement of each capsule are under way all the time, and
	// an idle daemon needs one, for its beats.
	return redisconn.Need{
		PoolSize: n, Idle: 2*len(cfg.Capsules) + 1, Rest: max(cfg.HeartbeatInterval*3/2, minRest), Block: blockTime,
	}
}

// needs is what the rights that the daemon needs depend on. A fetcher of somebody
// else's needs what it needs.
func (d *Daemon) needs() rights.Daemon {
	n := rights.Daemon{Identity: d.env.Identity, Metrics: d.cfg.Metrics != "off"}
	for _, s := range d.systems {
		if s.wire.Key == nil {
			continue
		}
		other := rights.Other{Key: s.wire.Key}
		for _, c := range s.capsules {
			other.Queues = append(other.Queues, d.reached(c.cfg)...)
		}
		n.Others = append(n.Others, other)
	}
	for _, k := range d.cfg.Capsules {
		if k.Wire == nil || k.Wire.Key == nil && k.Wire.Fetch == nil {
			n.Queues = append(n.Queues, d.reached(k)...)
		}
		n.Reliable = n.Reliable || same(k.Fetch, fetch.NewReliable)
		n.Basic = n.Basic || same(k.Fetch, fetch.NewBasic)
	}
	for _, class := range d.cfg.Registry.Classes() {
		e, _ := d.cfg.Registry.Lookup(class)
		n.Iterable = n.Iterable || e.Iterable
	}
	return n
}

// reached are the queues of a capsule, and those to which it hands jobs over.
func (d *Daemon) reached(k Capsule) []string {
	queues := k.Queues.List().Names()
	to, _ := k.handings("", d.cfg.Registry)
	for _, h := range to {
		queues = append(queues, h.queue)
	}
	return queues
}

func same(a, b fetch.Factory) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
