package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit/chaos"
)

// workerSpec is what a worker process is built from; zero values are the
// daemon's own defaults.
type workerSpec struct {
	Redis    string // URL
	Sentinel string // address; then Redis is the name of the master
	Records  string // URL of the database that runs are recorded in
	Capsules []capsuleSpec
	Lease    time.Duration
	Timeout  time.Duration
	Poll     time.Duration // between two polls of the sets
	Poison   int           // recoveries that make a job a poison pill
	Labels   []string
	Tag      string
	Escalate bool // no restarts: every failure of an actor escalates, one by a job's panic too
	Embedded bool
}

type capsuleSpec struct {
	Name        string
	Concurrency int
	Queues      []string
	Fetch       string // "", "basic" or "panics"
	Waiters     int
}

// worker is the program: a user's main, with classes whose arguments choose
// what happens.
type worker struct {
	spec    workerSpec
	records *redis.Client
}

func workerMain(spec workerSpec) int {
	w := &worker{spec: spec}
	rdb, err := w.spec.client()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	records, err := redis.ParseURL(w.spec.Records)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	w.records = redis.NewClient(records)
	zerolog.TimeFieldFormat = time.RFC3339Nano
	return actors.Main(w.config(rdb))
}

// client is one of the jobs' Redis.
func (s workerSpec) client() (*redis.Client, error) {
	if s.Sentinel != "" {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Redis, SentinelAddrs: []string{s.Sentinel}}), nil
	}
	options, err := redis.ParseURL(s.Redis)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}

func (w *worker) config(rdb *redis.Client) actors.Config {
	s := w.spec
	cfg := actors.Config{
		Redis: rdb, Registry: w.registry(), Logger: zerolog.New(os.Stderr).With().Timestamp().Logger(),
		Lease: s.Lease, Timeout: s.Timeout, PollInterval: s.Poll, Labels: s.Labels, Tag: s.Tag, Embedded: s.Embedded,
		Poison: actors.Poison{Recoveries: s.Poison},
		DeathHandlers: []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, err error) {
			w.record("death", p, "", err)
		}},
	}
	for _, k := range s.Capsules {
		c := actors.Capsule{Name: k.Name, Concurrency: k.Concurrency, Queues: fetch.Strict(k.Queues), Waiters: k.Waiters}
		switch k.Fetch {
		case "basic":
			c.Fetch = fetch.NewBasic
		case "panics":
			c.Fetch = newPanics
		}
		if s.Escalate {
			c.Strategy = escalating()
		}
		cfg.Capsules = append(cfg.Capsules, c)
	}
	if s.Escalate {
		cfg.Strategy = escalating()
	}
	return cfg
}

func escalating() *supervisor.Strategy {
	return supervisor.OneForOne(supervisor.Spec{Decide: func(supervisor.Failure) supervisor.Directive { return supervisor.Escalate }})
}

// panics is a third party's fetcher with a bug.
type panics struct{ fetch.Fetcher }

func newPanics(e fetch.Env) (fetch.Fetcher, error) {
	f, err := fetch.NewReliable(e)
	return panics{f}, err
}

func (panics) Take(context.Context, int, []fetch.Unit) ([]fetch.Unit, error) {
	panic("fetcher with a bug")
}

func (w *worker) registry() *troupe.Registry {
	var r troupe.Registry
	quick := troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(time.Millisecond) }}
	performs := map[string]func(context.Context, *troupe.Payload) error{
		"Record": func(context.Context, *troupe.Payload) error { return nil },
		// Nap sleeps args[0] seconds and gives up when it is told to.
		"Nap": func(ctx context.Context, p *troupe.Payload) error {
			select {
			case <-time.After(seconds(p)):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		// Unresponsive sleeps args[0] seconds whatever it is told.
		"Unresponsive": func(_ context.Context, p *troupe.Payload) error {
			time.Sleep(seconds(p)) // in a process of its own, in real time
			return nil
		},
		// HangOnce never ends on its first run, unless it is told to.
		"HangOnce": func(ctx context.Context, p *troupe.Payload) error {
			if ctx.Value(begun{}) == int64(1) {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		},
		// FanOnce pushes three jobs into the queue low with its ack, and then does as HangOnce does.
		"FanOnce": func(ctx context.Context, _ *troupe.Payload) error {
			for i := range 3 {
				if _, err := client.Within(ctx).PushClass(ctx, "Record", []any{i}, client.Queue("low")); err != nil {
					return err
				}
			}
			if ctx.Value(begun{}) == int64(1) {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		},
		// Answer sleeps args[0] seconds, of which it tells the tenths, and its result is its jid.
		"Answer": func(ctx context.Context, p *troupe.Payload) error {
			tenths := int64(10 * seconds(p).Seconds())
			for i := range tenths {
				troupe.SetProgress(ctx, i, tenths, "tenths")
				time.Sleep(100 * time.Millisecond) // in a process of its own, in real time
			}
			return troupe.SetResult(ctx, p.JID())
		},
		// NapFail sleeps args[0] seconds, then fails.
		"NapFail": func(_ context.Context, p *troupe.Payload) error {
			time.Sleep(seconds(p)) // in a process of its own, in real time
			return failure{"after a nap"}
		},
		"Fail": func(context.Context, *troupe.Payload) error { return failure{"on purpose"} },
		// FailOnce fails on the first run.
		"FailOnce": func(_ context.Context, p *troupe.Payload) error {
			if p.Failures() == 0 {
				return failure{"once"}
			}
			return nil
		},
		// Kill takes its process down, after args[0] seconds.
		"Kill": func(_ context.Context, p *troupe.Payload) error {
			time.Sleep(seconds(p)) // in a process of its own, in real time
			kill()
			return nil
		},
		"Boom": func(context.Context, *troupe.Payload) error { panic("boom") },
		// Mixed takes up to 20 ms, fails one first run in ten and panics in one of fifty.
		"Mixed": func(ctx context.Context, p *troupe.Payload) error {
			select {
			case <-time.After(rand.N(20 * time.Millisecond)):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			switch {
			case p.Failures() > 0:
			case rand.N(50) == 0:
				panic("mixed")
			case rand.N(10) == 0:
				return failure{"mixed"}
			}
			return nil
		},
	}
	maps.Copy(performs, w.batchClasses())
	for class, perform := range performs {
		var options troupe.Options
		if class == "Mixed" || class == "Nest" || class == "Member" {
			options = quick
		}
		troupe.HandleClass(&r, class, troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) (err error) {
			info, _ := troupe.JobInfoFrom(ctx)
			ctx = context.WithValue(ctx, begun{}, w.record("start", p, info.Queue, nil))
			defer func() {
				if v := recover(); v != nil {
					w.record("end", p, info.Queue, fmt.Errorf("panic: %v", v))
					panic(v)
				}
				w.record("end", p, info.Queue, err)
			}()
			return perform(ctx, p)
		}), options)
	}
	// ManyOnce is HangOnce for many jobs in one call.
	troupe.HandleManyClass(&r, "ManyOnce", func(ctx context.Context, jobs []*troupe.Job[troupe.RawArgs]) []error {
		hang := false
		for _, job := range jobs {
			if w.record("start", job.Payload, job.Queue, nil) == 1 {
				hang = true
			}
		}
		if hang {
			<-ctx.Done()
			return slices.Repeat([]error{context.Cause(ctx)}, len(jobs))
		}
		for _, job := range jobs {
			w.record("end", job.Payload, job.Queue, nil)
		}
		return nil
	}, troupe.Collect{Max: 20, Wait: time.Second})
	return &r
}

// failure has a class of its own, as errors of applications do.
type failure struct{ text string }

func (f failure) Error() string    { return f.text }
func (failure) ErrorClass() string { return "E2E::Failure" }

func seconds(p *troupe.Payload) time.Duration {
	var args []float64
	if json.Unmarshal(p.Args(), &args) != nil || len(args) == 0 {
		return time.Second
	}
	return time.Duration(args[0] * float64(time.Second))
}

// begun is the key of a context's value: how often the job has begun by now.
type begun struct{}

// record writes an event down and tells how often the job has begun; a job must
// not go on unrecorded.
func (w *worker) record(what string, p *troupe.Payload, queue string, err error) int64 {
	e := event{
		What: what, At: time.Now().UnixNano(), PID: os.Getpid(), JID: p.JID(), Class: p.Class(), Queue: queue,
		Args: string(p.Args()), Payload: string(p.Bytes()),
	}
	if err != nil {
		e.Error = err.Error()
	}
	ctx, times := context.Background(), int64(0)
	if what == "start" {
		times = 1
	}
	var n *redis.IntCmd
	_, rerr := w.records.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		n = pipe.HIncrBy(ctx, begunKey, e.JID, times)
		return pipe.RPush(ctx, eventsKey, mustJSON(e)).Err()
	})
	if rerr != nil {
		panic(fmt.Errorf("cannot record: %w", rerr))
	}
	return n.Val()
}

// startWorker runs a worker and waits until it does.
func startWorker(t testing.TB, spec workerSpec) *chaos.Process {
	t.Helper()
	p := startWorkerSoon(t, spec)
	p.Ready()
	return p
}

func startWorkerSoon(t testing.TB, spec workerSpec) *chaos.Process {
	t.Helper()
	if len(spec.Capsules) == 0 {
		spec.Capsules = []capsuleSpec{{Concurrency: 5, Queues: []string{"default"}}}
	}
	return procs.Worker(t, "worker", spec)
}

// kill ends this process as SIGKILL does.
func kill() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}
