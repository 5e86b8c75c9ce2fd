package scaletest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
)

func TestMain(m *testing.M) { procs.Main(m, childMain) }

// childMain is a daemon on the Redis of that URL.
func childMain(url string) int {
	rdb, err := redisconn.FromURL(url, redisconn.Need{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	cfg := config(rdb, &record{fn: child})
	cfg.Logger = zerolog.New(os.Stderr)
	cfg.Lease = 5 * time.Second // a machine that stands still for less costs no job a recovery
	return actors.Main(cfg)
}

// ran counts the jobs of a process that are to "run".
var ran atomic.Int64

// child is the job of a process: it says what it runs, and when it has ended.
func child(p *troupe.Payload) error {
	fmt.Println("ran", p.JID())
	switch args := string(p.Args()); {
	case strings.HasPrefix(args, `["kill"`):
		time.Sleep(100 * time.Millisecond) // others have begun
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Kill()
		}
	case strings.HasPrefix(args, `["nap"`):
		time.Sleep(300 * time.Millisecond) // a longer job, in a process of its own
	default:
		time.Sleep(3 * time.Millisecond) // a short job, in a process of its own
		if ran.Add(1) > 500 {
			select {} // it has work left when it is killed, however late that is
		}
	}
	fmt.Println("done", p.JID())
	return nil
}

// config is that of a daemon with three queues in three slots.
func config(rdb redis.UniversalClient, r *record) actors.Config {
	var registry troupe.Registry
	troupe.HandleClass(&registry, "Job", r)
	return actors.Config{
		Redis: rdb, Registry: &registry, Lease: 2 * time.Second, Timeout: 10 * time.Second,
		PollIntervalPerProcess: time.Second, HeartbeatInterval: time.Second,
		Capsules: []actors.Capsule{
			{Concurrency: 5, Queues: fetch.Weighted{"q0": 2, "q1": 1}},
			{Name: "other", Concurrency: 5, Queues: fetch.Strict{"q2"}},
		},
	}
}

// record counts runs by jid.
type record struct {
	fn func(p *troupe.Payload) error

	mu    sync.Mutex
	runs  map[string]int
	first map[string]time.Time
}

func (r *record) Perform(ctx context.Context, p *troupe.Payload) error {
	r.mu.Lock()
	if r.runs == nil {
		r.runs, r.first = map[string]int{}, map[string]time.Time{}
	}
	if r.runs[p.JID()]++; r.runs[p.JID()] == 1 {
		r.first[p.JID()] = time.Now()
	}
	r.mu.Unlock()
	var args []any
	if err := json.Unmarshal(p.Args(), &args); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "wait" {
		<-ctx.Done()
		return ctx.Err()
	}
	if r.fn == nil {
		return nil
	}
	return r.fn(p)
}

func (r *record) count(jid string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[jid]
}

// missing counts the jobs that have not run.
func (r *record) missing(jids ...string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, jid := range jids {
		if r.runs[jid] == 0 {
			n++
		}
	}
	return n
}

// all are the numbers of runs by jid.
func (r *record) all() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.runs)
}

// start runs a daemon until the end of the test.
func start(t *testing.T, cfg actors.Config) *actors.Daemon {
	t.Helper()
	d := harness.Must(actors.New(cfg))(t)
	harness.OK(t, d.Start(t.Context()))
	t.Cleanup(func() { stop(t, d) })
	return d
}

func stop(t *testing.T, d *actors.Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := d.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// patience is for a machine with ten times as much to do.
const patience = 3 * time.Minute
