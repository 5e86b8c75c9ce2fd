// Package chaos kills, pauses and cuts off daemons and their Redis at random
// while they work, and tells afterwards what became of each job. What has run is
// written by the daemons into files, outside of all that is being broken. A
// System is what is put to the test: troupe, or a peer that the separate module
// bench adds, under the same load and the same faults by the same seed.
package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/testkit/chaos"
)

// Config is how much of it, and how hard.
type Config struct {
	Jobs     int
	Duration time.Duration // that jobs are pushed and faults happen for
	Daemons  int
	Seed     uint64
	Fsync    string        // of Redis: always, everysec, or no (which writes nothing to disk)
	Settle   time.Duration // within which all must be done after the last fault
}

// Lease is that of the daemons; pauses are longer.
const Lease = 2 * time.Second

// Flags adds the settings to a flag set; what is not given is a short run.
func Flags(flags *flag.FlagSet) *Config {
	c := &Config{}
	flags.IntVar(&c.Jobs, "chaos.jobs", 3000, "jobs to push")
	flags.DurationVar(&c.Duration, "chaos.duration", 25*time.Second, "how long to push them, and to break things")
	flags.IntVar(&c.Daemons, "chaos.daemons", 3, "daemons at a time; every other one has a faulty way to Redis")
	flags.Uint64Var(&c.Seed, "chaos.seed", 0, "seed of jobs and faults; 0: draw one")
	flags.StringVar(&c.Fsync, "chaos.fsync", "always", "appendfsync of Redis: always, everysec, or no for no file at all")
	flags.DurationVar(&c.Settle, "chaos.settle", 6*time.Minute, "how long to wait for the last job")
	return c
}

// System is a way to run jobs.
type System struct {
	Name string
	// Work is the main function of a daemon: it runs jobs until TERM.
	Work func(w *Worker) int
	// Push returns a function that pushes one job, for several goroutines.
	Push func(rdb *redis.Client) func(context.Context, Task) error
	// Left is where each job stands in Redis, by number.
	Left func(ctx context.Context, rdb *redis.Client) (map[int]string, error)
	// Final is the place of jobs that will not be tried again.
	Final string
	// Fences is when the process was told that it had been taken for dead; nil if
	// the system tells nobody.
	Fences func(p *chaos.Process) []time.Time
	// Effects: its jobs push with their acks, are unique, and have others behind them in a chain. Locks are then those
	// that are held, and Ask has a lock looked at whose job may be gone.
	Effects bool
	Locks   func(ctx context.Context, rdb *redis.Client) ([]string, error)
	Ask     func(ctx context.Context, rdb *redis.Client, lock string) error
	// Slots are those that jobs under limits have, and the rules that hold jobs; nil: it has no limits.
	Slots func(ctx context.Context, rdb *redis.Client) ([]string, error)
}

// Task is one job.
type Task struct {
	N            int           `json:"n"`
	Takes        time.Duration `json:"takes"`
	Unresponsive bool          `json:"unresponsive"` // it does not hear that it is to stop
	Fails        bool          `json:"fails"`        // its first run does
	Run          int64         `json:"run"`          // of its parent, that has pushed it with its ack
	Key          int           `json:"key"`          // it is unique by this; 0: it is not
	Links        int           `json:"links"`        // so many are behind it in a chain
	Limit        int           `json:"limit"`        // it is under a limit by this; 0: it is not
}

// Numbers of jobs that are not pushed for themselves: two children of every third job, which it pushes with its ack, two
// links behind every seventh, and a duplicate of every fifth. The second child is unique, by a key of its own.
const (
	children, links                     = 2, 2
	firstChild, firstLink, duplicateNum = 100_000_000, 300_000_000, firstMember + members*100_000_000
)

func child(n, i int) int { return firstChild*(i+1) + n }
func link(n, i int) int  { return firstLink + 100_000_000*i + n }

// pushes reports whether a job pushes.
func (t Task) pushes() bool { return t.N%3 == 0 && t.N < firstChild }

// duplicate is a job with the key of another one.
func (t Task) duplicate() Task {
	return Task{N: duplicateNum + t.N, Takes: 5 * time.Millisecond, Key: t.Key, Limit: t.Limit}
}

// task is the job of a number: most take up to 50 ms, some seconds.
func (c *Config) task(n int) Task {
	r := rand.New(rand.NewPCG(c.Seed, uint64(n)))
	t := Task{N: n, Takes: time.Duration(r.Int64N(int64(50 * time.Millisecond))), Limit: limitKey(n)}
	if n%5 == 1 {
		t.Key = n
	}
	if n%7 == 2 {
		t.Links = links
	}
	switch p := r.Float64(); {
	case p < 0.003:
		t.Takes, t.Unresponsive = 4*time.Second, true
	case p < 0.02:
		t.Takes = time.Duration(r.Int64N(int64(2 * time.Second)))
	case p < 0.07:
		t.Fails = true
	}
	return t
}

// workerEnv makes a process of a test binary a daemon.
const workerEnv = "TROUPE_CHAOS_WORKER"

// Worker is what a daemon is told.
type Worker struct {
	System string
	Redis  string // address
	File   string // that it writes its runs into
	Rate   int    // of rated jobs, in a second

	file *os.File
}

// Concurrency is that of each daemon.
const Concurrency = 10

// Child runs this process as a daemon if it was started as one; then it does not
// return. TestMain calls it first.
func Child(systems ...System) {
	text, ok := os.LookupEnv(workerEnv)
	if !ok {
		return
	}
	w := &Worker{}
	err := json.Unmarshal([]byte(text), w)
	if err == nil {
		w.file, err = os.OpenFile(w.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	for _, s := range systems {
		if s.Name == w.System {
			os.Exit(s.Work(w))
		}
	}
	fmt.Fprintf(os.Stderr, "no system %q\n", w.System)
	os.Exit(3)
}

// errOnPurpose is the failure of a job's first run.
type errOnPurpose struct{}

func (errOnPurpose) Error() string { return "on purpose" }

// Perform is the handler of every system. A run that cannot be written down
// ends the process: it must not count.
func (w *Worker) Perform(ctx context.Context, t Task, first bool) (err error) {
	w.note('s', t.N)
	if t.Run != 0 {
		w.write('c', t.N, t.Run)
	}
	defer func() {
		how := byte('i')
		if err == nil {
			how = 'd'
		} else if errors.Is(err, errOnPurpose{}) {
			how = 'f'
		}
		w.note(how, t.N)
	}()
	stop := ctx.Done()
	if t.Unresponsive {
		stop = nil
	}
	select {
	case <-time.After(t.Takes):
	case <-stop:
		return context.Cause(ctx)
	}
	if t.Fails && first {
		return errOnPurpose{}
	}
	return nil
}

// note writes one line with one call: a kill leaves it whole or absent.
func (w *Worker) note(what byte, n int) { w.write(what, n, time.Now().UnixNano()) }

func (w *Worker) write(what byte, n int, number int64) {
	if _, err := fmt.Fprintf(w.file, "%c %d %d\n", what, n, number); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}
