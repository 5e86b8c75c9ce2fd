package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// once is a command that go-redis must not repeat by itself after a lost
// reply, whatever MaxRetries the client has: a repeated LPUSH is a second job.
type once struct{ *redis.IntCmd }

// NoRetry keeps go-redis from repeating the command.
func (once) NoRetry() bool { return true }

// step is one command of a push with its name in errors.
type step struct {
	what   string // "queue ", "set schedule"
	name   string // of the queue
	args   []any
	safe   bool // may be sent any number of times
	wakeUp bool // its failure does not matter
}

// send pushes entries in one round trip: their queues are made known, each
// queue gets one LPUSH in the order of entries, so that they are fetched in
// that order, and all scheduled ones share one ZADD. It returns nil, or one error
// (or nil) per entry: a queue that refuses does not concern the others.
func (c *Client) send(ctx context.Context, entries []entry) []error {
	steps := plan(entries)
	if len(steps) == 0 {
		return nil
	}
	errs, again := run(ctx, c.rdb, steps)
	if again {
		// The server has become a replica, or has no replica left. The pool may
		// hold more connections to it, so the second try gets a client of its own.
		rdb, done := fresh(c.rdb)
		defer done()
		var left []step
		for i := range steps {
			if steps[i].safe || steps[i].wakeUp || failover(errs[i]) {
				left = append(left, steps[i])
			}
		}
		second, _ := run(ctx, rdb, left)
		for i := range steps {
			if steps[i].safe || steps[i].wakeUp || failover(errs[i]) {
				errs[i] = nil
				if second != nil {
					errs[i], second = second[0], second[1:]
				}
			}
		}
	}
	return perEntry(entries, steps, errs)
}

// perEntry tells for each entry what became of it.
func perEntry(entries []entry, steps []step, errs []error) []error {
	if first(errs) == nil {
		return nil
	}
	var known, later error
	queues := map[string]error{}
	maybe := map[string]bool{} // queues that may have got their jobs
	for i, err := range errs {
		if steps[i].name != "" && !redisconn.NotSent(err) {
			maybe[steps[i].name] = true
		}
		if err == nil || steps[i].wakeUp {
			continue
		}
		err = fmt.Errorf("%s%s: %w", steps[i].what, steps[i].name, unavailable(err, !redisconn.NotSent(err)))
		switch {
		case steps[i].safe:
			known = err
		case steps[i].name != "":
			queues[steps[i].name] = err
		default:
			later = err
		}
	}
	out := make([]error, len(entries))
	for i, e := range entries {
		switch {
		case e.score != "":
			out[i] = later
		case known != nil:
			out[i] = known
			if u, ok := errchain.As[*UnavailableError](known); ok && u.Maybe != maybe[e.queue] {
				out[i] = fmt.Errorf("set queues: %w", unavailable(u.Err, maybe[e.queue]))
			}
		default:
			out[i] = queues[e.queue]
		}
	}
	return out
}

// unavailable wraps the fault of a step if Redis is away, so that the job may go
// another time; maybe tells that it may have arrived.
func unavailable(err error, maybe bool) error {
	if fault := redisconn.Classify(err); fault == redisconn.Outage || fault == redisconn.Auth {
		return &UnavailableError{Err: err, Maybe: maybe}
	}
	return err
}

func plan(entries []entry) []step {
	if len(entries) == 1 && entries[0].score == "" { // the common push, without the bookkeeping
		e := entries[0]
		return []step{
			{what: "set queues", safe: true, args: []any{"sadd", keys.Queues, e.queue}},
			{what: "queue ", name: e.queue, args: []any{"lpush", keys.Queue(e.queue), e.raw}},
		}
	}
	var known, later []any
	var lists []step
	var index map[string]int // of lists, once there are two
	at, last := 0, ""
	for _, e := range entries {
		if e.score != "" {
			later = append(later, e.score, e.raw)
			continue
		}
		if lists == nil || e.queue != last {
			at, last = len(lists), e.queue
			if i, ok := index[e.queue]; ok {
				at = i
			} else {
				if index == nil {
					index = make(map[string]int)
				}
				index[e.queue] = at
				known = append(known, e.queue)
				list := append(make([]any, 0, 2+len(entries)), "lpush", keys.Queue(e.queue))
				lists = append(lists, step{what: "queue ", name: e.queue, args: list})
			}
		}
		lists[at].args = append(lists[at].args, e.raw)
	}
	steps := make([]step, 0, 3+len(lists))
	if known != nil {
		steps = append(steps, step{what: "set queues", safe: true, args: append([]any{"sadd", keys.Queues}, known...)})
		steps = append(steps, lists...)
	}
	if later != nil {
		// It wakes the fleet's watcher on servers without CLIENT TRACKING.
		steps = append(steps,
			step{what: "set schedule", args: append([]any{"zadd", keys.Schedule}, later...)},
			step{wakeUp: true, args: []any{"publish", keys.Wakeup, "1"}})
	}
	return steps
}

// run sends steps in one pipeline. It returns nil, or the fault of each step, and
// whether some are to be sent again elsewhere because the server has refused to
// write.
func run(ctx context.Context, rdb redis.UniversalClient, steps []step) (errs []error, again bool) {
	pipe := rdb.Pipeline()
	for _, s := range steps {
		_ = pipe.Process(ctx, once{redis.NewIntCmd(ctx, s.args...)}) // only queues it
	}
	cmds, failed := pipe.Exec(ctx)
	if failed == nil {
		return nil, false
	}
	errs = make([]error, len(steps))
	told := false // a command holds the failure
	for i, cmd := range cmds {
		errs[i] = cmd.Err()
		told = told || cmd.Err() != nil
		again = again || !steps[i].wakeUp && failover(cmd.Err())
	}
	if !told { // a hook of the given client's
		for i := range errs {
			errs[i] = failed
		}
	}
	return errs, again
}

// failover reports whether the server refused because it is no master (any more)
// that can write, in the words that Sidekiq looks for.
func failover(err error) bool {
	reply, ok := errchain.As[redis.Error](err)
	if !ok {
		return false
	}
	return slices.ContainsFunc([]string{"READONLY", "NOREPLICAS", "UNBLOCKED"}, func(word string) bool {
		return strings.Contains(reply.Error(), word)
	})
}

// fresh returns a client of the same server, or the server that has taken its
// place, without any connection yet. For a type of client that is not go-redis'
// own it can only return the same one.
func fresh(rdb redis.UniversalClient) (redis.UniversalClient, func()) {
	var out redis.UniversalClient
	switch rdb := rdb.(type) {
	case *redis.Client:
		o := *rdb.Options()
		o.PoolSize, o.MinIdleConns, o.PipelinePoolSize = 1, 0, -1
		o.MaintNotificationsConfig = off()
		o.ClientSideCacheConfig, o.ClientSideCache = nil, nil
		out = redis.NewClient(&o)
	case *redis.ClusterClient:
		o := *rdb.Options()
		o.PoolSize, o.MinIdleConns = 1, 0
		o.MaintNotificationsConfig = off()
		out = redis.NewClusterClient(&o)
	case *redis.Ring:
		o := *rdb.Options()
		o.PoolSize, o.MinIdleConns = 1, 0
		out = redis.NewRing(&o)
	default:
		return rdb, func() {}
	}
	return out, func() { _ = out.Close() }
}

func off() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
