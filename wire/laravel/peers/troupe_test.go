package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
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

const daemonEnv = "TROUPE_LARAVEL_DAEMON"

func TestMain(m *testing.M) {
	text := os.Getenv(daemonEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var d daemon
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		panic(err)
	}
	os.Exit(d.run())
}

// run is the process.
func (d *daemon) run() int {
	go func() { // the test has died
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(1)
	}()
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

// process is a daemon that runs.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	ended chan struct{}
}

// troupe starts a daemon.
func (a *app) troupe(d daemon) *process {
	a.t.Helper()
	d.Addr, d.Prefix = a.addr, a.prefix
	if d.Lease == 0 {
		d.Lease = 30 * time.Second
	}
	text := harness.Must(json.Marshal(d))(a.t)
	exe := harness.Must(os.Executable())(a.t)
	p := &process{t: a.t, cmd: exec.CommandContext(context.Background(), exe), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), daemonEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	harness.Must(p.cmd.StdinPipe())(a.t)
	harness.OK(a.t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	a.t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	harness.OK(p.t, p.cmd.Process.Signal(s))
}

// exits waits for its end and returns its code.
func (p *process) exits() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		p.t.Fatal("the daemon did not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop is a stop by TERM.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.exits(); code != 0 {
		p.t.Errorf("the daemon exited with %d, expected 0", code)
	}
}
