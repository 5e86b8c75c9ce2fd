package sched

import (
	"cmp"
	_ "embed"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
)

// Config is what a Scheduler needs.
type Config struct {
	// Redis is the daemon's own client (MaxRetries -1, ContextTimeoutEnabled); it is
	// not closed. Lead needs a *redis.Client or a *redis.ClusterClient.
	Redis redis.UniversalClient

	// Client gives the middleware, defaults and timestamps of promoted jobs.
	// nil means one of Redis with Timestamps and nothing else.
	Client     *client.Client
	Timestamps troupe.Timestamps

	// Prepare returns what makes a due member of set, which names queue, ready for it, in place of
	// Client; an error of that sends it to the dead set. nil: as a push of Client.
	Prepare func(set, queue string) func(p *troupe.Payload, now time.Time) (*troupe.Payload, error)

	// Logger gets what happens to single members: moved to dead, left where
	// they are. Never their arguments.
	Logger zerolog.Logger

	Identity string // of the process; Lead needs one, and no other process may have it

	Batch       int           // members a Promote moves; 0 means 500, at most 1,000
	DeadMax     int           // the dead set keeps DeadMax-1 entries, as Sidekiq does; 0 is the default
	DeadTimeout time.Duration // older entries of the dead set go; 0 is the default
}

// Scheduler promotes due jobs. The sets are independent of each other; for one
// set, Promote is meant to be called by one goroutine at a time (it is safe to
// do otherwise, but not faster).
type Scheduler struct {
	cfg     Config
	terms   []*term
	fleet   atomic.Int64 // processes; 0 before they were counted
	cursors map[string]*cursor
	leading chan struct{} // holds the one Lead that runs
}

// New returns a Scheduler; nothing is sent.
func New(cfg Config) *Scheduler {
	if cfg.Client == nil {
		cfg.Client = client.New(cfg.Redis, client.WithTimestamps(cfg.Timestamps))
	}
	cfg.Batch = min(cmp.Or(max(0, cfg.Batch), 500), 1000) // move.lua unpacks it: far below Lua's limit
	cfg.DeadMax = cmp.Or(max(0, cfg.DeadMax), limits.DeadMax)
	cfg.DeadTimeout = cmp.Or(max(0, cfg.DeadTimeout), limits.DeadTimeout)
	s := &Scheduler{cfg: cfg, cursors: map[string]*cursor{}, leading: make(chan struct{}, 1)}
	if redisconn.OnCluster(cfg.Redis) { // the sets are in two slots, each with a lock beside it
		s.addTerm(keys.ClusterPoller(keys.Retry), keys.ClusterStandby(keys.Retry), keys.Retry)
		s.addTerm(keys.ClusterPoller(keys.Schedule), keys.ClusterStandby(keys.Schedule), keys.Schedule)
	} else {
		s.addTerm(keys.Poller, keys.Standby, keys.Retry, keys.Schedule)
	}
	return s
}

func (s *Scheduler) addTerm(lock, standby string, sets ...string) {
	t := &term{lock: lock, standby: standby, sets: sets}
	s.terms = append(s.terms, t)
	for _, set := range sets {
		s.cursors[set] = &cursor{term: t, page: page{count: s.cfg.Batch, bytes: maxPage, whole: s.cfg.Batch}}
	}
}

var (
	//go:embed due.lua
	dueSource string
	//go:embed move.lua
	moveSource string
	//go:embed unread.lua
	unreadSource string

	dueScript    = script.New("sched.due", dueSource)
	moveScript   = script.New("sched.move", script.Bound+moveSource)
	unreadScript = script.New("sched.unread", script.Bound+unreadSource)
)
