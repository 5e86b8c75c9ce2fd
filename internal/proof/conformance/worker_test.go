package conformance

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
)

// workerSpec is what the Go worker is built from; zero values are the daemon's
// own defaults. It runs in a process or inside a test.
type workerSpec struct {
	Redis, Book string // URLs: the database, and where runs are written down
	Capsules    []capsuleSpec
	Timeout     time.Duration
	Beat        time.Duration
	Poll        time.Duration
	Millis      bool // write times as Sidekiq 8 does
	Labels      []string
	Tag         string
	WorkersKey  bool
}

type capsuleSpec struct {
	Name        string
	Concurrency int
	Queues      []string       // strict
	Weights     map[string]int // instead of Queues
}

// on is a worker with n processors for these queues, strict.
func on(n int, queues ...string) workerSpec {
	return workerSpec{Capsules: []capsuleSpec{{Concurrency: n, Queues: queues}}}
}

// event is what a worker writes down about a job, in list events.
type event struct {
	What    string // run or death
	PID     int
	JID     string
	Class   string // that its handler was found by
	Queue   string
	Args    string // raw text
	Payload string // the bytes as the handler got them
	At      int64  // µs since the epoch
}

const eventsKey = "events"

// worker is a user's program.
type worker struct {
	spec workerSpec
	book *redis.Client
}

func workerMain(spec workerSpec) int {
	w := &worker{spec: spec}
	rdb, err := dial(w.spec.Redis)
	if err == nil {
		w.book, err = dial(w.spec.Book)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	cfg := w.config(rdb)
	cfg.Logger = zerolog.New(os.Stderr).With().Timestamp().Logger()
	return actors.Main(cfg)
}

func dial(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}

func (w *worker) config(rdb *redis.Client) actors.Config {
	s := w.spec
	cfg := actors.Config{
		Redis: rdb, Registry: w.registry(), Timeout: s.Timeout, HeartbeatInterval: s.Beat, PollInterval: s.Poll,
		Labels: s.Labels, Tag: s.Tag, WorkersKey: s.WorkersKey,
		DeathHandlers: []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, _ error) { w.note("death", p, troupe.JobInfo{}) }},
	}
	if s.Millis {
		cfg.Timestamps = troupe.TimestampsMillis
	}
	for _, k := range s.Capsules {
		c := actors.Capsule{Name: k.Name, Concurrency: k.Concurrency, Queues: fetch.Strict(k.Queues)}
		if k.Weights != nil {
			c.Queues = fetch.Weighted(k.Weights)
		}
		cfg.Capsules = append(cfg.Capsules, c)
	}
	return cfg
}

// failure has a class of its own, as errors of applications do.
type failure struct{ class, text string }

func (f failure) Error() string      { return f.text }
func (f failure) ErrorClass() string { return f.class }

func fails(class, text string) func(context.Context, *troupe.Payload) error {
	return func(context.Context, *troupe.Payload) error { return failure{class, text} }
}

func succeeds(context.Context, *troupe.Payload) error { return nil }

func (w *worker) registry() *troupe.Registry {
	var r troupe.Registry
	for class, perform := range map[string]func(context.Context, *troupe.Payload) error{
		"Record": succeeds, "FailInRuby": succeeds, "RecordJob": succeeds, "Emails::WelcomeJob": succeeds,
		"Fail": fails("Conformance::Failure", "on purpose"), "FailInGo": fails("Conformance::Failure", "on purpose"),
		"RetryQueueJob": fails("RuntimeError", "go low"), "DieJob": fails("RuntimeError", "die"),
		"LongWinded": fails("Conformance::Failure", strings.Repeat("é", 20_000)),
		"Garbled":    fails("Conformance::Failure", strings.Repeat("\xff", 20_000)),
		"Boom":       func(context.Context, *troupe.Payload) error { panic("boom") },
		"OneRetry":   fails("Conformance::Failure", "on purpose"),
		"FailOnce": func(_ context.Context, p *troupe.Payload) error {
			if p.Failures() == 0 {
				return failure{"Conformance::Failure", "once"}
			}
			return nil
		},
		"Gate": w.waits, "SlowJob": w.waits,
		"FailAtGate": func(ctx context.Context, p *troupe.Payload) error {
			if err := w.waits(ctx, p); err != nil {
				return err
			}
			return failure{"Conformance::Failure", "at the gate"}
		},
	} {
		var options troupe.Options
		switch class {
		case "OneRetry":
			options.Retries = troupe.Times(1)
		case "FailAtGate": // not to run again while a test looks at it
			options.RetryIn = func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(time.Hour) }
		}
		troupe.HandleClass(&r, class, troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			info, _ := troupe.JobInfoFrom(ctx)
			w.note("run", p, info)
			return perform(ctx, p)
		}), options)
	}
	troupe.HandleClass(&r, "Fleet", troupe.HandlerFunc(w.fleet))
	return &r
}

// waits until the test opens the gate of this job.
func (w *worker) waits(ctx context.Context, p *troupe.Payload) error {
	for w.book.Exists(ctx, gateKey(p.JID())).Val() == 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func gateKey(jid string) string { return "gate:" + jid }

// note writes an event down; a job must not go on unrecorded.
func (w *worker) note(what string, p *troupe.Payload, info troupe.JobInfo) {
	e := event{
		What: what, PID: os.Getpid(), JID: p.JID(), Class: info.Class, Queue: info.Queue,
		Args: string(p.Args()), Payload: string(p.Bytes()), At: time.Now().UnixMicro(),
	}
	if err := w.book.RPush(context.Background(), eventsKey, asJSON(e)).Err(); err != nil {
		panic(fmt.Sprintf("cannot write down a run: %v", err))
	}
}
