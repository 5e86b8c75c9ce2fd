package actors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/poison"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rights"
	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/supervisor"
)

// Daemon is one running troupe: the actor tree and what outlives its actors.
// New makes one. All methods are safe for concurrent use.
type Daemon struct {
	cfg  Config
	env  *env.Env
	log  *logs.Writer // of the logger, nil for a program's own
	info beat.Info
	made time.Time

	systems  []*system
	capsules []*capsule
	written  written

	endSettle    context.CancelFunc // ends env.Settling
	rescuedUnits atomic.Uint64
	suspected    atomic.Uint64
	poisoned     atomic.Uint64
	isolation    isolation
	young        young
	drain        drain
	beats        beats
	progress     progress
	hooks        *hooks
	deaths       *poison.Deaths
	events       *events
	limits       []troupe.Limit // replaced under mu, see jobLimits
	defining     chan struct{}  // has room for one: who tells Redis their numbers, see alone
	doubts       []doubt        // what Start warns of
	quieting     atomic.Bool    // quiet or later, for the hot path

	mu        sync.Mutex
	begun     bool // Start was called
	running   bool // and has succeeded
	state     phase
	until     time.Time // the deadline of the stop
	stoppedAt time.Time
	asked     *time.Duration // the timeout of a stop that was begun before running
	fatal     error          // why the daemon stops by itself
	limitEnds bool           // all capsules have reached limits
	ended     chan struct{}  // closed when the daemon has ended
	managers  atomic.Int64   // that have started once
	up        chan struct{}  // closed when all have

	registered bool      // a beat has reached Redis; guarded by mu, as beatAt is
	beatAt     time.Time // when the last beat was over, well or not
}

// phase only ever grows.
type phase int

const (
	phaseRunning phase = iota
	phaseQuiet
	phaseStopping
	phaseEnded
)

// New checks cfg, reads the options of its client and builds a daemon; it does
// not touch the network. Every fault of cfg is in the error.
func New(cfg Config) (*Daemon, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.Strategy == nil {
		cfg.Strategy = supervisor.Default()
	}
	processors := 0
	for i := range cfg.Capsules {
		if cfg.Capsules[i].Strategy == nil {
			cfg.Capsules[i].Strategy = supervisor.Default()
		}
		processors += cfg.Capsules[i].Concurrency
	}
	own, err := redisconn.Derive(cfg.Redis, redisOptions(cfg))
	if err != nil {
		return nil, fmt.Errorf("config: Redis: %w", err)
	}
	if cfg.OnClient != nil {
		cfg.OnClient(own)
	}
	if cfg.Client == nil {
		cfg.Client = client.New(own, client.WithMiddleware(cfg.ClientMiddleware...), client.WithTimestamps(cfg.Timestamps), client.WithEncryption(cfg.Encryption))
	}
	if err := cfg.Client.Err(); err != nil {
		_ = own.Close()
		return nil, fmt.Errorf("config: Client: %w", err)
	}
	d := &Daemon{
		cfg: cfg, log: logs.Of(cfg.Logger), made: time.Now(), limits: cfg.limits(),
		hooks: newHooks(cfg.Logger), events: newEvents(cfg.Logger, cfg.Registry, cfg.periodicNames(), cfg.limitNames()),
		up: make(chan struct{}), ended: make(chan struct{}), defining: make(chan struct{}, 1),
	}
	hostname := beat.Hostname(os.Getenv)
	pid := osproc.PID()
	identity := beat.NewIdentity(hostname, pid)
	d.env = &env.Env{
		Log: cfg.Logger, Redis: own, Identity: identity, Seed: jitter.Of(identity),
		System: supervised.New(cfg.Logger, identity, launcherName, d.events.publish),
		Outage: env.NewOutage(cfg.Logger, heart), Leases: env.NewLeases(cfg.Lease), Changes: supervised.NewBroadcast(),
	}
	d.env.Settling, d.endSettle = context.WithCancel(context.Background())
	d.deaths = d.newDeaths()
	d.beats.init(d)
	for _, k := range cfg.Capsules {
		c, err := newCapsule(d, k)
		if err != nil {
			d.disconnect()
			return nil, fmt.Errorf("config: capsule %s: %w", k.Name, err)
		}
		d.capsules = append(d.capsules, c)
	}
	d.isolation = isolation{env: d.env, capsules: d.capsules, quieting: &d.quieting}
	d.info = d.beatInfo(hostname, pid)
	d.doubts = doubts(cfg)
	for _, f := range cfg.On.Created {
		if err := supervised.Isolate(func() { f(d) }); err != nil {
			d.hooks.failed("created", f, err)
		}
	}
	return d, nil
}

// Start checks Redis and the rights of its user, runs the startup callbacks and spawns the tree. It returns
// when every actor has been spawned; a daemon is started once. After an error it
// has ended. ctx is for the start only: when it ends before Start has returned, the daemon is stopped
// and the error is the cause of ctx. Afterwards it means nothing, and Stop ends the daemon.
func (d *Daemon) Start(ctx context.Context) error {
	d.mu.Lock()
	if d.begun {
		d.mu.Unlock()
		return errors.New("actors: the daemon was started before")
	}
	d.begun = true
	d.mu.Unlock()
	err := ctx.Err()
	if err == nil {
		err = d.boot(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("start: %w", context.Cause(ctx))
	}
	if err != nil {
		d.abort()
		return err
	}
	for _, s := range d.cfg.Subscribers {
		d.Subscribe(s)
	}
	d.mu.Lock()
	d.info.StartedAt = time.Now()
	d.beatAt = d.info.StartedAt
	d.mu.Unlock()
	d.env.System.Begin()
	// a launcher that gives up ends the daemon; these are for its own panics
	root := supervised.Root(supervisor.Spec{Intensity: 5, Period: time.Minute}, d.fail)
	props := d.env.System.SupervisorProps("launcher", "", d.cfg.Strategy, func(o *supervised.Proxy) actor.Actor { return newLauncher(d, o) },
		actor.WithGuardian(root)) //nolint:forbidigo // the one root
	d.env.Outage.Ring = d.ringParts
	_, err = d.env.System.Root().SpawnNamed(props, launcherName)
	if err != nil {
		d.abort()
		return fmt.Errorf("spawn the launcher: %w", err)
	}
	d.mu.Lock()
	d.running = true
	asked := d.asked
	d.mu.Unlock()
	if asked != nil { // the tree gave up, or all capsules reached limits, before it could be stopped
		d.beginStop(*asked)
	}
	select {
	case <-d.up:
	case <-d.ended:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		d.beginStop(d.cfg.Timeout)
		<-d.ended
		return fmt.Errorf("start: %w", context.Cause(ctx))
	}
	for _, doubt := range d.doubts {
		doubt.tell(d.env.Log)
	}
	supervised.Tell(func() {
		d.env.Log.Info().Str("identity", d.env.Identity).Str("version", d.cfg.Version).Str("environment", d.cfg.Environment).
			Strs("capsules", d.capsuleNames()).Int("pid", os.Getpid()).Msg("troupe is running")
	})
	supervised.Tell(func() {
		d.env.Log.Debug().Interface("scripts", script.Names()).Msg("scripts by their SHA-1, as SLOWLOG shows them")
	})
	return nil
}

func (d *Daemon) boot(ctx context.Context) error {
	var names []func(string) string
	for _, s := range d.systems {
		names = append(names, s.key)
	}
	warnings, err := d.checkRedis(ctx, names)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		supervised.Tell(func() { d.env.Log.Warn().Msg(w) })
	}
	for _, f := range d.cfg.On.Startup {
		var err error
		if perr := supervised.Isolate(func() { err = f(ctx) }); perr != nil {
			err = perr
			d.hooks.failed("startup", f, perr)
		}
		if err != nil {
			return fmt.Errorf("startup: %w", err)
		}
	}
	return nil
}

// checkRedis looks whether Redis and the rights of its user will do. One that still loads its
// data, as after a restart, is waited for.
func (d *Daemon) checkRedis(ctx context.Context, names []func(string) string) (warnings []string, err error) {
	for try := 0; ; try++ {
		var lacks []string
		if warnings, err = redisconn.Check(ctx, d.env.Redis, names...); err == nil {
			lacks, err = rights.Check(ctx, d.env.Redis, d.needs())
		}
		if !redisconn.Loading(err) {
			return append(warnings, lacks...), err
		}
		if try == 0 {
			supervised.Tell(func() { logs.Err(d.env.Log.Warn(), err).Msg("redis is loading its data; the start waits for it") })
		}
		if !d.env.Pause(ctx, "start", try) {
			return nil, err
		}
	}
}

// abort ends a daemon whose start failed.
func (d *Daemon) abort() {
	d.mu.Lock()
	d.state = phaseEnded
	d.mu.Unlock()
	d.endSettle()
	d.disconnect()
	d.events.end(time.Now().Add(endTime))
	close(d.ended)
}

// disconnect closes the daemon's own connections.
func (d *Daemon) disconnect() {
	for _, s := range d.systems {
		_ = s.close(d)
	}
	_ = d.env.Redis.Close()
}

// managerUp counts the managers that have started.
func (d *Daemon) managerUp() {
	if d.managers.Add(1) == int64(len(d.cfg.Capsules)) {
		close(d.up)
	}
}

func (d *Daemon) capsuleNames() []string {
	var names []string
	for _, c := range d.capsules {
		names = append(names, c.cfg.Name)
	}
	return names
}

// ringParts wakes those who talk to Redis at long intervals.
func (d *Daemon) ringParts() {
	for _, name := range []string{"heartbeat", "rescuer", "poller"} {
		d.env.System.Send(launcherName+"/"+name, supervised.Wake{})
	}
}

// Identity is this process's name in Sidekiq: HOST:PID:NONCE.
func (d *Daemon) Identity() string { return d.env.Identity }

// Stats are this daemon's own counters since it started.
type Stats struct {
	Processed, Failed uint64 // executions, and those that ended with an error; without the parked
	Busy              int    // running now
	Waiting           int    // fetched and not started, or ended and not yet settled in Redis
	Rescued           uint64 // jobs of dead processes that this one has put back
	Suspected         uint64 // of those: set apart as suspects
	Poisoned          uint64 // of those: moved into the dead set
	Refused           uint64 // settlements refused because the job was no longer ours
	Fencings          uint64 // times this process was taken for dead
	RedisAway         bool   // it does not answer, or refuses
	RedisRefuses      string // of these, what it refuses with: "it is full …"
	Quiet             bool   // fetching has ended: quiet or stopping
}

// Stats returns the counters.
func (d *Daemon) Stats() Stats {
	s := Stats{Rescued: d.rescuedUnits.Load(), Suspected: d.suspected.Load(), Poisoned: d.poisoned.Load(), RedisAway: d.env.Outage.Away(), Quiet: d.quieting.Load() || d.allQuiet()}
	if s.RedisAway {
		refusal, _ := d.env.Outage.Refusal()
		s.RedisRefuses = refusal.Text
	}
	for _, c := range d.capsules {
		processed, failed := c.pool.ended()
		s.Processed += processed
		s.Failed += failed
		busy := int(c.pool.busy.Load())
		total := c.ledger.Size()
		s.Busy += busy
		s.Waiting += max(0, total-busy)
		s.Refused += c.refused.Load()
		s.Fencings += c.fencings.Load()
	}
	return s
}

// Faults is for package testkit, whose Kit has methods of the same names for tests: it injects
// faults into the tree.
func (d *Daemon) Faults() supervised.Faults { return d.env.System }
