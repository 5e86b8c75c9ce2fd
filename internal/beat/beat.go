package beat

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
)

const (
	// Period is the time between beats, as in Sidekiq 7 and 8.
	Period = 10 * time.Second

	// Lease is how long a process counts as alive after its last beat.
	Lease = 60 * time.Second

	// maxSignals are read in one beat; more wait for the next.
	maxSignals = 100
)

// State is what one beat tells.
type State struct {
	Info  Info
	Now   time.Time
	Work  []Work // the jobs that run now; "busy" is their number
	Quiet bool
	RSS   int64 // KB, see RSS

	// WorkersKey writes the work under its old name as well, for the pages and
	// the API of Sidekiq up to 6.4.1.
	WorkersKey bool

	Tree []byte // the supervision tree, as JSON; nil: not told
}

// Work is a running job.
type Work struct {
	TID     string // any short text, unique in the process
	Queue   string // bare name it was fetched from
	Payload []byte // the job as it stood in the queue
	RunAt   time.Time
}

// Result is what a beat brings back.
type Result struct {
	// Existed is false on the first beat, and on the first one after the
	// process was out of sight for longer than Lease.
	Existed bool

	// Signals are the names sent since the last beat, oldest first: TSTP, TERM,
	// TTIN, or anything that somebody has pushed there. They have been taken
	// away from Redis; when the reply of a beat is lost, so are its signals (as
	// in Sidekiq), and the button has to be pressed again.
	Signals []string

	RTT time.Duration // of one PING
}

// Beat writes the state of a process and takes its signals, in two round trips.
// It may be repeated after any error.
func Beat(ctx context.Context, rdb redis.UniversalClient, s State) (Result, error) {
	id := s.Info.Identity
	sent := time.Now()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return Result{}, fmt.Errorf("ping: %w", err)
	}
	rtt := time.Since(sent)

	var existed *redis.IntCmd
	var signals *redis.StringSliceCmd
	_, err := atomically(ctx, rdb, func(p redis.Pipeliner) error {
		publishWork(ctx, p, keys.Work(id), s.Work)
		if s.WorkersKey {
			publishWork(ctx, p, keys.Workers(id), s.Work)
		}
		if s.Tree != nil {
			p.Set(ctx, keys.Tree(id), s.Tree, Lease)
		}
		p.SAdd(ctx, keys.Processes, id)
		existed = p.Exists(ctx, id)
		p.HSet(ctx, id,
			"info", s.Info.JSON(),
			"concurrency", s.Info.Concurrency(),
			"busy", len(s.Work),
			"beat", []byte(troupe.TimestampsFloat.Format(s.Now)),
			"rtt_us", rtt.Microseconds(),
			"quiet", strconv.FormatBool(s.Quiet),
			"rss", s.RSS,
		)
		p.Expire(ctx, id, Lease)
		signals = p.RPopCount(ctx, keys.Signals(id), maxSignals)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // no signals
		return Result{}, fmt.Errorf("publish process: %w", err)
	}
	return Result{Existed: existed.Val() > 0, Signals: signals.Val(), RTT: rtt}, nil
}

// publishWork replaces the hash of running jobs; an idle process has none.
func publishWork(ctx context.Context, p redis.Pipeliner, key string, work []Work) {
	p.Unlink(ctx, key)
	if len(work) == 0 {
		return
	}
	fields := make([]any, 0, 2*len(work))
	for _, w := range work {
		fields = append(fields, w.TID, w.json())
	}
	p.HSet(ctx, key, fields...)
	p.Expire(ctx, key, Lease)
}

// json returns the value of one running job. The payload is a string that
// holds the job's JSON, in every version.
func (w Work) json() []byte {
	var p troupe.Payload
	p.SetString("queue", w.Queue)
	p.SetString("payload", string(w.Payload))
	p.SetInt("run_at", w.RunAt.Unix())
	return p.Bytes()
}

// atomically runs commands in one MULTI, or, on a cluster, in one pipeline.
func atomically(ctx context.Context, rdb redis.UniversalClient, fn func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	if _, ok := rdb.(*redis.ClusterClient); ok {
		return rdb.Pipelined(ctx, fn)
	}
	return rdb.TxPipelined(ctx, fn)
}
