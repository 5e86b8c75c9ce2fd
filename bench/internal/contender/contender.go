// Package contender knows the job systems that are compared: how each is filled
// with jobs, how its worker process is started and set up, and how to tell from
// its store that nothing is left.
package contender

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// Contender is one way to run jobs.
type Contender struct {
	Name  string
	About string // how it is set up, for the reader of a table
	Slow  bool   // below some 50,000 jobs a second: measured with fewer jobs
	Format

	// Missing tells why it cannot run on this machine; nil means it can.
	Missing func() error
	// Command starts a worker that is not this program; nil means it is.
	Command func(w Work) (*exec.Cmd, error)
	// Serve is the worker: it runs jobs until the process is killed.
	Serve func(ctx context.Context, s *Session) error
	// Push pushes jobs for a measurement of that; nil if it is not compared.
	Push func(ctx context.Context, s *Session) error
	// Pusher is its name when it pushes, if that is another.
	Pusher string
}

// Format is how jobs stand in a store. Contenders that share a format are given
// the same data.
type Format struct {
	Name     string
	Postgres bool // its store is PostgreSQL, else Redis
	// Fill writes jobs into an empty store.
	Fill func(ctx context.Context, st Store, l Load) error
	// Left is the number of jobs that wait or run.
	Left func(ctx context.Context, st Store) (int64, error)
	// Failed is the number of jobs that are stored for another try.
	Failed func(ctx context.Context, st Store) (int64, error)
}

// Store is where jobs are: one of the two.
type Store struct {
	Redis *redis.Client
	Pool  *pgxpool.Pool
}

// Load is the jobs of a measurement.
type Load struct {
	Jobs    int      // all together
	Queues  []string // they are spread over
	Pad     int      // bytes added to the arguments of each
	Fan     int      // jobs that each of them pushes as it runs
	Sleep   int64    // µs that each of them takes
	Due     bool     // scheduled, and due
	Waiting bool     // scheduled, and not due for a year
}

// All returns every contender, troupe first.
func All() []Contender {
	return []Contender{
		Troupe("troupe", "one middleware, typed handler, job log lines at warn", nil),
		Troupe("troupe-info", "the same with job log lines at info, to a file", func(w *Work) { w.InfoLog = true }),
		Troupe("troupe-raw", "the same with a raw handler that decodes nothing", func(w *Work) { w.Raw = true }),
		brpop(), blmove(), asynqPeer(), goWorkersPeer(), goWorkers2Peer(), gocraftPeer(), riverPeer(), sidekiqPeer(),
		troupeLaravel(), laravelPeer(),
	}
}

// Find returns the contender of a name.
func Find(name string) (Contender, error) {
	all := All()
	i := slices.IndexFunc(all, func(c Contender) bool { return c.Name == name })
	if i < 0 {
		return Contender{}, fmt.Errorf("no contender %q", name)
	}
	return all[i], nil
}

// Work is what a worker process is told.
type Work struct {
	Contender   string
	Redis       string // address
	Postgres    string // connection string
	Progress    string // path
	Concurrency int
	Queues      []Queue

	InfoLog  bool   // job log lines at info
	Log      string // file of InfoLog
	Raw      bool   // a handler that decodes nothing
	Fail     bool   // every job fails
	FastPoll bool   // the shortest interval of what is polled for
	AtOnce   int    // so many jobs run at once in all processes; 0: no limit
	Daemons  int    // troupe daemons in the one process; 0 means 1

	Push *Push // push jobs instead of running them
}

// Queue is a queue to work on; Weight 0 means strict order.
type Queue struct {
	Name   string
	Weight int
}

// Push is what a pushing process does.
type Push struct {
	Mode string // one of the modes below
	Jobs int
}

// Goroutines is how many push.
func (p *Push) Goroutines() int {
	switch p.Mode {
	case Parallel:
		return pushers
	case Few:
		return few
	}
	return 1
}

// Modes of Push.
const (
	Single   = "single"   // one after the other
	Few      = "few"      // 10 goroutines, as the handlers of a small server
	Parallel = "parallel" // 64 goroutines
	Bulk     = "bulk"     // all at once, as the contender likes it best
	pushers  = 64
	few      = 10
)

// Names are the names of the queues.
func (w Work) Names() (names []string) {
	for _, q := range w.Queues {
		names = append(names, q.Name)
	}
	return names
}

// workVariable passes Work to a child.
const workVariable = "TROUPE_BENCH_WORK"

// Worker returns the command of one worker process.
func (c Contender) Worker(w Work) (*exec.Cmd, error) {
	w.Contender = c.Name
	if c.Command != nil {
		return c.Command(w)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = append(os.Environ(), workVariable+"="+string(text))
	return cmd, nil
}
