package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// rubyMissing tells why Ruby's Sidekiq cannot be used; asked once.
var rubyMissing = sync.OnceValue(func() error {
	for _, name := range []string{"ruby", "sidekiq"} {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}
	script := `require "sidekiq"; require "rack/session/cookie"; exit(Sidekiq::VERSION == "6.4.1")`
	if out, err := exec.CommandContext(context.Background(), "ruby", "-W0", "-e", script).CombinedOutput(); err != nil {
		return fmt.Errorf("sidekiq 6.4.1 with rack: %w %s", err, out)
	}
	return nil
})

func needRuby(t testing.TB) {
	t.Helper()
	if err := rubyMissing(); err != nil {
		redistest.Missing(t, err)
	}
}

// console is a Ruby process (testdata/console.rb) that all tests share: a boot
// costs half a second. It serves one request at a time, each on the database of
// the test that asks.
type console struct {
	*chaos.Process
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

var theConsole = sync.OnceValues(func() (*console, error) {
	cmd := exec.CommandContext(context.Background(), "ruby", "-W0", "-EUTF-8:UTF-8", filepath.Join("testdata", "console.rb"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, write, err := os.Pipe() // not StdoutPipe, which the waiting goroutine would close
	if err != nil {
		return nil, err
	}
	cmd.Stdout = write
	p := chaos.Launch(binary, "console.rb", cmd)
	_ = write.Close()
	return &console{Process: p, in: in, out: bufio.NewReader(out)}, nil
})

// ruby evaluates a script with Sidekiq's client, API and poller on the database
// at url, where it sees args, and decodes its value into out, unless that is nil.
func ruby(t testing.TB, url, script string, out any, args ...any) {
	t.Helper()
	needRuby(t)
	c := harness.Must(theConsole())(t)
	var answer struct {
		Value json.RawMessage
		Error string
	}
	if err := c.ask(map[string]any{"url": url, "script": script, "args": args}, &answer); err != nil {
		t.Fatalf("%v\n%s", err, c.Stderr())
	}
	if answer.Error != "" {
		t.Fatalf("ruby: %s\nin: %s", answer.Error, script)
	}
	if out != nil {
		decode(t, string(answer.Value), out)
	}
}

func (c *console) ask(request map[string]any, answer any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer time.AfterFunc(4*soon, c.Kill).Stop() // rather than wait for ever
	if _, err := fmt.Fprintln(c.in, asJSON(request)); err != nil {
		return err
	}
	text, err := c.out.ReadBytes('\n')
	if err != nil {
		return errors.Join(errors.New("the Ruby console has ended"), err)
	}
	return json.Unmarshal(text, answer)
}

// binary stands for all tests: what is tied to it ends with the last of them.
var binary = &allTests{}

type allTests struct {
	testing.TB
	mu  sync.Mutex
	end []func()
}

func (a *allTests) Helper()                           {}
func (a *allTests) Failed() bool                      { return false }
func (a *allTests) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (a *allTests) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (a *allTests) Cleanup(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end = append(a.end, f)
}

func (a *allTests) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.end {
		f()
	}
}

// The application of a real Sidekiq server, and what it says when it has started.
const rubyApplication, rubyStarted = "testdata/worker.rb", "worker.rb: started"

// sidekiq runs a real Sidekiq server of the test's own.
func (s *site) sidekiq(flags ...string) *chaos.Process {
	s.t.Helper()
	needRuby(s.t)
	return procs.Sidekiq(s.t, s.url, rubyApplication, rubyStarted, flags...)
}

// rubyRun is one run in a real Sidekiq server.
type rubyRun struct {
	JID, Class, Queue string
	Args              string // as Ruby writes them
	Job               string // likewise
}

// rubyRuns waits for n runs of jobs that pick chooses, nil for all. It waits on as
// long as there are more and more.
func (s *site) rubyRuns(n int, pick func(rubyRun) bool) []rubyRun {
	s.t.Helper()
	var runs []rubyRun
	for seen := -1; len(runs) < n; seen = len(runs) {
		testkit.Await(s.t, fmt.Sprintf("%d runs in Ruby, after %d", n, max(seen, 0)), func() bool {
			runs = runs[:0]
			for _, text := range s.rdb.LRange(s.t.Context(), "ruby:runs", 0, -1).Val() {
				r, job := rubyRun{}, struct{ JID string }{}
				var args json.RawMessage
				decode(s.t, text, &[]any{&r.Class, &args, &r.Queue, &r.Job})
				decode(s.t, r.Job, &job)
				if r.JID, r.Args = job.JID, string(args); pick == nil || pick(r) {
					runs = append(runs, r)
				}
			}
			return len(runs) > max(seen, 0) || len(runs) >= n
		})
	}
	return runs
}

func ofJID(jids ...string) func(rubyRun) bool {
	return func(r rubyRun) bool { return slices.Contains(jids, r.JID) }
}

// sharedSidekiq is a real Sidekiq server with one thread that several tests
// share, in a database of its own, each with a queue named after its check.
var sharedSidekiq struct {
	once sync.Once
	url  string
}

var sharedQueues = []string{"check11", "check14", "check15", "check16", "check43", "check45"}

// withSharedSidekiq returns the site of the shared server; all tests on it see
// each other's jobs.
func withSharedSidekiq(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	needRuby(t)
	redistest.New(t) // where there is none, skip here and not inside of once
	sharedSidekiq.once.Do(func() {
		_, sharedSidekiq.url = redistest.New(t)
		flags := []string{"-c", "1"}
		for _, name := range sharedQueues {
			flags = append(flags, "-q", name)
		}
		procs.Sidekiq(binary, sharedSidekiq.url, rubyApplication, rubyStarted, flags...)
	})
	options := harness.Must(redis.ParseURL(sharedSidekiq.url))(t)
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return siteOf(t, rdb, sharedSidekiq.url)
}
