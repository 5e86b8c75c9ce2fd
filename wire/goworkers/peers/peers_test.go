package peers

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	workers2 "github.com/digitalocean/go-workers2"
	workers1 "github.com/jrallison/go-workers"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/wire/goworkers"
)

// peer is a process of one of the three systems. Each job it runs is noted in the list "ran" as
// "KIND JID ARGS". Arguments say what a job does: "fail", "sleep", "hold" until the key release.
type peer struct {
	Kind      string // "v1", "v2" or "troupe"
	Addr      string
	Namespace string
	Process   string
	Queues    []string
	Conc      int
	Heartbeat bool // of v2: every second, stale after three
	Lease     time.Duration
}

const peerEnv = "TROUPE_PEER"

func TestMain(m *testing.M) {
	text := os.Getenv(peerEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var p peer
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	p.run()
}

func (p *peer) run() {
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr})
	go func() { // the test has died
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(1)
	}()
	do := func(jid, args string) error {
		rdb.RPush(context.Background(), "ran", p.Kind+" "+jid+" "+args)
		switch {
		case strings.Contains(args, "fail"):
			return errors.New("it fails")
		case strings.Contains(args, "hold"):
			for rdb.Exists(context.Background(), "release").Val() == 0 {
				time.Sleep(20 * time.Millisecond) // a poll, in a process of its own
			}
		case strings.Contains(args, "sleep"):
			time.Sleep(10 * time.Millisecond) // the job takes some time, in a process of its own
		}
		return nil
	}
	switch p.Kind {
	case "v1":
		workers1.Configure(map[string]string{
			"server": p.Addr, "process": p.Process, "pool": "10", "namespace": p.Namespace, "poll_interval": "1",
		})
		for _, q := range p.Queues {
			workers1.Process(q, func(m *workers1.Msg) {
				if err := do(m.Jid(), m.Args().ToJson()); err != nil {
					panic(err)
				}
			}, p.Conc)
		}
		workers1.Run()
	case "v2":
		o := workers2.Options{ServerAddr: p.Addr, ProcessID: p.Process, PoolSize: 10, Namespace: p.Namespace, PollInterval: time.Second}
		if p.Heartbeat {
			o.Heartbeat = &workers2.HeartbeatOptions{Interval: time.Second, HeartbeatTTL: 3 * time.Second}
		}
		m, err := workers2.NewManager(o)
		if err != nil {
			panic(err)
		}
		for _, q := range p.Queues {
			m.AddWorker(q, p.Conc, func(m *workers2.Msg) error { return do(m.Jid(), m.Args().ToJson()) })
		}
		m.Run()
	case "troupe":
		os.Exit(actors.Main(p.config(rdb, do)))
	}
}

// config is troupe's own process.
func (p *peer) config(rdb *redis.Client, do func(jid, args string) error) actors.Config {
	var jobs troupe.Registry
	for _, q := range p.Queues {
		troupe.HandleClass(&jobs, "queue "+q, troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
			return do(p.JID(), string(p.Args()))
		}))
	}
	classes := map[string]string{}
	for _, q := range p.Queues {
		classes[q] = "queue " + q
	}
	return actors.Config{
		Redis: rdb, Registry: &jobs, Lease: p.Lease, HeartbeatInterval: 500 * time.Millisecond, Timeout: time.Second,
		Capsules: []actors.Capsule{{
			Concurrency: p.Conc, Queues: actors.Strict(p.Queues),
			Wire: goworkers.New(goworkers.Options{Namespace: p.Namespace, Classes: classes}),
		}},
	}
}

// process is a peer that runs.
type process struct {
	cmd  *exec.Cmd
	once sync.Once
	out  harness.Buffer
}

func start(t *testing.T, p peer) *process {
	t.Helper()
	if p.Conc == 0 {
		p.Conc = 2
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	r := &process{cmd: exec.Command(os.Args[0])}
	r.cmd.Env = append(os.Environ(), peerEnv+"="+string(text))
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	in, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		r.kill()
		if t.Failed() {
			t.Logf("%s %s:\n%s", p.Kind, p.Process, r.out.String())
		}
	})
	return r
}

// kill is kill -9.
func (r *process) kill() { r.end(syscall.SIGKILL) }

// stop is TERM, and waits for the end.
func (r *process) stop() { r.end(syscall.SIGTERM) }

func (r *process) end(s syscall.Signal) {
	r.once.Do(func() {
		_ = r.cmd.Process.Signal(s)
		_ = r.cmd.Wait()
	})
}

// run is a job as it was noted.
type run struct{ kind, jid, args string }

func ran(t *testing.T, rdb *redis.Client) (all []run) {
	t.Helper()
	for _, text := range rdb.LRange(t.Context(), "ran", 0, -1).Val() {
		f := strings.SplitN(text, " ", 3)
		all = append(all, run{f[0], f[1], f[2]})
	}
	return all
}

// times are how often each job ran.
func times(t *testing.T, rdb *redis.Client) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, r := range ran(t, rdb) {
		n[r.jid]++
	}
	return n
}

// one is held by whoever uses the configuration of go-workers: a process has one.
var one sync.Mutex

// push1 pushes as go-workers does.
func push1(t *testing.T, addr, namespace string, push func() (string, error)) string {
	t.Helper()
	one.Lock()
	defer one.Unlock()
	workers1.Configure(map[string]string{"server": addr, "process": "pusher", "pool": "2", "namespace": namespace})
	jid, err := push()
	if err != nil {
		t.Fatal(err)
	}
	return jid
}

func producer2(t *testing.T, addr, namespace string) *workers2.Producer {
	t.Helper()
	p, err := workers2.NewProducer(workers2.Options{ServerAddr: addr, ProcessID: "pusher", Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(what, err)
	}
}

func args(jobs []run) (texts []string) {
	for _, r := range jobs {
		texts = append(texts, r.args)
	}
	return texts
}

var testRetries = troupe.Times(9)
