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
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
)

const (
	// Period is the time between beats, as in Sidekiq 7 and 8.
	Period = 10 * time.Second

	// Lease is how long a process counts as alive after its last beat.
	Lease = 60 * time.Second

	// Silence is how long after its last beat a process counts as silent: two beats are missing.
	Silence = 25 * time.Second

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

	// Extra are further fields of the process, for a system that reads them, too: then the
	// beat is in whole seconds, and what a dead process leaves stays for five leases.
	Extra map[string]string

	Tree  []byte // the supervision tree, as JSON; nil: not told
	Pulse []byte // the same for views of a fleet, see package pulse; nil: not told
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

	RTT time.Duration // of one PING, or of the last beat if that was as short
}

// Beater makes the beats of one process. The zero value is ready for the first
// one. One goroutine at a time may use it.
type Beater struct {
	trip   time.Duration // what the last beat took; 0: it told of work, or failed, or there was none
	worked bool          // work may be told
	tidied time.Time     // when the last beat that kept the index of pulses in order was made
}

// Beat writes the state of a process and takes its signals: in one round trip
// when nothing runs, as it was the last time, else in two. It may be repeated
// after any error. with adds commands that travel along, in a MULTI where a
// cluster does not forbid it; what becomes of them is no concern of the beat's.
func (b *Beater) Beat(ctx context.Context, rdb redis.UniversalClient, s State, with ...func(redis.Pipeliner)) (Result, error) {
	id := s.Info.Identity
	rtt := b.trip
	if rtt == 0 || len(s.Work) > 0 {
		sent := time.Now()
		if err := rdb.Ping(ctx).Err(); err != nil {
			b.trip = 0
			return Result{}, fmt.Errorf("ping: %w", err)
		}
		rtt = time.Since(sent)
	}
	b.trip, b.worked = 0, b.worked || len(s.Work) > 0

	var existed *redis.IntCmd
	var signals *redis.StringSliceCmd
	own := 0
	tidy := s.Now.Sub(b.tidied).Abs() >= pulseTidy
	sent := time.Now()
	cmds, _ := atomically(ctx, rdb, func(p redis.Pipeliner) error {
		if b.worked {
			publishWork(ctx, p, keys.Work(id), s.Work)
			if s.WorkersKey {
				publishWork(ctx, p, keys.Workers(id), s.Work)
			}
		}
		if s.Tree != nil {
			p.Set(ctx, keys.Tree(id), s.Tree, Lease)
		}
		if s.Pulse != nil {
			writePulse(ctx, p, id, s.Pulse, s.Now)
			if tidy {
				tidyPulses(ctx, p, s.Now)
			}
		}
		p.SAdd(ctx, keys.Processes, id)
		existed = p.Exists(ctx, id)
		fields := []any{
			"info", s.Info.JSON(),
			"concurrency", s.Info.Concurrency(),
			"busy", len(s.Work),
			"beat", s.beat(),
			"rtt_us", rtt.Microseconds(),
			"quiet", strconv.FormatBool(s.Quiet),
			"rss", s.RSS,
		}
		life := Lease
		for name, value := range s.Extra {
			fields, life = append(fields, name, value), 5*Lease
		}
		p.HSet(ctx, id, fields...)
		p.Expire(ctx, id, life)
		signals = p.RPopCount(ctx, keys.Signals(id), maxSignals)
		own = p.Len()
		for _, add := range with {
			add(p)
		}
		return nil
	})
	for _, cmd := range cmds[:min(own, len(cmds))] {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) { // no signals
			return Result{}, fmt.Errorf("publish process: %w", err)
		}
	}
	if tidy {
		b.tidied = s.Now
	}
	if b.worked = len(s.Work) > 0; !b.worked {
		b.trip = time.Since(sent)
	}
	return Result{Existed: existed.Val() > 0, Signals: signals.Val(), RTT: rtt}, nil
}

// beat is the time of the beat.
func (s *State) beat() []byte {
	if len(s.Extra) > 0 {
		return strconv.AppendInt(nil, s.Now.Unix(), 10)
	}
	return scores.AppendTime(nil, s.Now, false)
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
	if redisconn.OnCluster(rdb) {
		return rdb.Pipelined(ctx, fn)
	}
	cmds, err := rdb.TxPipelined(ctx, fn)
	return cmds, redisconn.Reason(cmds, err)
}
