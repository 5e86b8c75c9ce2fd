package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/wire/laravel"
)

// daemon is a troupe for the jobs of an application, as a process of its own.
type daemon struct {
	Addr        string
	Prefix      string
	Queues      []string
	Concurrency int
	Lease       time.Duration
	Tries       int
	Relay       string
	AppKey      string
	Cache       bool
	Limits      actors.Limits
	Verbose     bool
}

func TestMain(m *testing.M) { procs.Main(m, func(d daemon) int { return d.run() }) }

// run is the process.
func (d *daemon) run() int {
	cfg, err := d.config()
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch err := actors.Run(ctx, cfg); {
	case errors.Is(err, actors.ErrMemory):
		return actors.ExitMemory
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (d *daemon) config() (actors.Config, error) {
	rdb := redis.NewClient(&redis.Options{Addr: d.Addr})
	o := laravel.Options{Prefix: d.Prefix, Tries: d.Tries, Relay: d.Relay, AppKey: d.AppKey}
	if d.Cache {
		o.Cache = &laravel.Cache{Prefix: d.Prefix + "laravel_cache:", Database: 1}
	}
	w, err := laravel.New(o)
	if err != nil {
		return actors.Config{}, err
	}
	if len(d.Queues) == 0 {
		d.Queues = []string{"default"}
	}
	log := zerolog.Nop()
	if d.Verbose {
		log = zerolog.New(os.Stderr)
	}
	return actors.Config{
		Redis: rdb, Registry: d.registry(rdb), Lease: d.Lease, Logger: log, Timeout: time.Second,
		Capsules: []actors.Capsule{{Wire: w, Concurrency: d.Concurrency, Queues: actors.Strict(d.Queues), Limits: d.Limits}},
	}, nil
}

// behaviour is what a job asks for, as of app/jobs.php.
type behaviour struct {
	Fail    int
	Sleep   float64
	Release float64
	Forever bool
}

// registry has the jobs of the application.
func (d *daemon) registry(rdb *redis.Client) *troupe.Registry {
	var r troupe.Registry
	perform := func(ctx context.Context, p *troupe.Payload) error {
		args := p.Args()
		data := json.RawMessage(args[1 : len(args)-1])
		var b behaviour
		_ = json.Unmarshal(data, &b)
		if o, err := laravel.Command(p); err == nil {
			data = []byte(fmt.Sprintf("%q", o.Class))
		}
		line, err := json.Marshal(run{Side: "troupe", Job: p.Class(), Data: data, Attempt: p.Failures() + 1, At: float64(time.Now().UnixMicro()) / 1e6})
		if err != nil {
			return err
		}
		if err := rdb.RPush(ctx, "runs", line).Err(); err != nil {
			return err
		}
		time.Sleep(time.Duration(b.Sleep * 1e9)) // the job says how long it takes, in a process of its own
		switch {
		case b.Fail >= p.Failures()+1:
			return errors.New("asked to fail")
		case b.Release > 0 && p.Failures() == 0:
			return troupe.RetryIn(time.Duration(b.Release*1e9), nil)
		}
		return nil
	}
	for _, class := range []string{`App\Jobs\Task`, "task", `App\Jobs\Resize`, `App\Jobs\Secret`, `App\Jobs\Step`} {
		troupe.HandleClass(&r, class, troupe.HandlerFunc(perform))
	}
	return &r
}

// troupe starts a daemon.
func (a *app) troupe(d daemon) *chaos.Process {
	a.t.Helper()
	d.Addr, d.Prefix = a.addr, a.prefix
	if d.Lease == 0 {
		d.Lease = 30 * time.Second
	}
	return procs.Worker(a.t, "troupe", d)
}
