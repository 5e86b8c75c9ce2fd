package sched

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/script"
)

// Set is a sorted set of jobs by the time at which they are due.
type Set string

// The two sets that are promoted from.
const (
	Retry    Set = keys.Retry
	Schedule Set = keys.Schedule
)

// Config is what a Scheduler needs.
type Config struct {
	// Redis is the daemon's own client (MaxRetries -1); it is not closed. Watch
	// needs a *redis.Client, from whose options it opens two connections, or a
	// *redis.ClusterClient.
	Redis redis.UniversalClient

	// OnClient is called with the client that Watch opens, before its first command;
	// nil: nobody is called.
	OnClient func(redis.UniversalClient)

	// Client gives the middleware, defaults and timestamps of promoted jobs.
	// nil means one of Redis with Timestamps and nothing else.
	Client     *client.Client
	Timestamps troupe.Timestamps

	// Logger gets what happens to single members: moved to dead, left where
	// they are. Never their arguments.
	Logger zerolog.Logger

	Identity string // of the process; its pauses differ from those of others

	Batch       int           // members a Promote looks at; 0 means 500, at most 1,000
	DeadMax     int           // the dead set keeps DeadMax-1 entries, as Sidekiq does; 0 means 10,000
	DeadTimeout time.Duration // older entries of the dead set go; 0 means 180 days

	PollAverage     time.Duration // Sidekiq's poll_interval_average; 0 means none, see Interval
	AverageInterval time.Duration // average_scheduled_poll_interval, per process; 0 means 5 s
}

// Scheduler promotes due jobs. The sets are independent of each other; for one
// set, Promote is meant to be called by one goroutine at a time (it is safe to
// do otherwise, but not faster).
type Scheduler struct {
	cfg     Config
	retry   cursor
	sched   cursor
	standby atomic.Bool // set by Watch: another process is meant to be faster
	waiting atomic.Bool // likewise: for a seat
	vacant  chan struct{}
}

// New returns a Scheduler; nothing is sent.
func New(cfg Config) *Scheduler {
	if cfg.Client == nil {
		cfg.Client = client.New(cfg.Redis, client.WithTimestamps(cfg.Timestamps))
	}
	if cfg.Batch <= 0 {
		cfg.Batch = 500
	}
	cfg.Batch = min(cfg.Batch, maxBatch)
	if cfg.DeadMax <= 0 {
		cfg.DeadMax = 10_000
	}
	if cfg.DeadTimeout <= 0 {
		cfg.DeadTimeout = 180 * 24 * time.Hour
	}
	return &Scheduler{cfg: cfg, vacant: make(chan struct{}, 1)}
}

// maxBatch keeps the lists that the script unpacks far below Lua's limit.
const maxBatch = 1000

func (s *Scheduler) cursor(set Set) (*cursor, error) {
	switch set {
	case Retry:
		return &s.retry, nil
	case Schedule:
		return &s.sched, nil
	}
	return nil, fmt.Errorf("promote: got set %q, want retry or schedule", string(set))
}

// Outlook is what a glance at the sets shows.
type Outlook struct {
	Retry     time.Time // when the first entry is due, past if it is; zero: the set is empty
	Schedule  time.Time
	Processes int // of the fleet, Ruby's included; the input of Interval
}

// Next is the earlier of the two times, zero if both sets are empty.
func (o Outlook) Next() time.Time { return earliest(o.Retry, o.Schedule) }

//go:embed look.lua
var lookSource string

var lookScript = script.New("look", lookSource)

// Look glances at both sets and the number of processes, in one round trip,
// whatever is in them. Use it to find out whether to Promote.
func (s *Scheduler) Look(ctx context.Context) (Outlook, error) {
	if moving.Needed(s.cfg.Redis) {
		return lookOnCluster(ctx, s.cfg.Redis)
	}
	o, err := look(ctx, s.cfg.Redis, keys.Retry, keys.Schedule, keys.Processes)
	if err != nil {
		return Outlook{}, err
	}
	return s.behind(o), nil
}

// behind puts times that are to come off by standbyDelay on the second watcher.
func (s *Scheduler) behind(o Outlook) Outlook {
	o.Retry, o.Schedule = s.delayed(o.Retry), s.delayed(o.Schedule)
	return o
}

func (s *Scheduler) delayed(t time.Time) time.Time {
	if t.IsZero() || !s.standby.Load() {
		return t
	}
	return t.Add(standbyDelay)
}

func look(ctx context.Context, rdb redis.Scripter, from ...string) (Outlook, error) {
	reply, err := lookScript.Run(ctx, rdb, from).Slice()
	if err != nil {
		return Outlook{}, fmt.Errorf("look at schedule and retry: %w", err)
	}
	if len(reply) != 3 {
		return Outlook{}, fmt.Errorf("look at schedule and retry: got %d values, want 3", len(reply))
	}
	n, _ := reply[2].(int64)
	return Outlook{Retry: scoreTime(reply[0]), Schedule: scoreTime(reply[1]), Processes: int(n)}, nil
}

// scoreTime reads a score as the script returns it. Scores outside of the years
// 1970 to 2286 become one of the two ends: due at once, or never.
func scoreTime(v any) time.Time {
	text, _ := v.(string)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}
	}
	return timeOf(f)
}

// timeOf rounds up to microseconds, so that at that time the entry is due: a
// wake-up a nanosecond early would find nothing and be set for the same time.
func timeOf(score float64) time.Time {
	sec, frac := math.Modf(min(max(score, 0), 1e10))
	return time.Unix(int64(sec), int64(math.Ceil(frac*1e6))*1e3)
}

// earliest ignores zero times.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
