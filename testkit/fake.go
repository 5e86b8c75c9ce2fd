package testkit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

// Pushes is what a client has pushed. It is safe for concurrent use.
type Pushes struct {
	// Client is the client whose pushes these are; nil for Record.
	Client *client.Client

	tb      testing.TB
	inline  *runner
	mu      sync.Mutex
	all     []Pushed          // since the last Clear
	waiting []Pushed          // of those, what was not run yet
	locks   map[string]string // of unique jobs: jid by key

	debounces map[string]debounced       // the first push of each job of client.Debounce, by key
	results   map[string]json.RawMessage // of the jobs that are done, by jid

	rdb     *redis.Client // of Client
	batches *redis.Client // keeps the batches; nil until there is one
	running sync.Mutex    // held by who runs a script there
}

// Pushed is one job as it would be in Redis.
type Pushed struct {
	*troupe.Payload
	At time.Time // when it is due; zero: at once
	// Sealed tells that Redis would have its last argument encrypted. The payload has it in clear, but for one of Record.
	Sealed bool
}

// Fake returns a client that keeps what is pushed in memory: no Redis, no
// connection. Everything before that is the client's own code, so that options,
// middleware and errors are the real ones, and the payloads the bytes that would
// be sent, but for a sealed last argument: see Pushed. Without client.WithEncryption it is sealed with
// a key of the test.
func Fake(tb testing.TB, opts ...client.ClientOption) *Pushes {
	tb.Helper()
	p := &Pushes{tb: tb}
	p.Client = p.newClient(opts)
	return p
}

// Inline is Fake, but each push runs its job before it returns, scheduled and debounced ones as
// well, inside the class's own middleware and mw. What the handler returns is the
// push's error (which wraps it); a class without a handler is a
// *troupe.UnknownClassError, a panic a *troupe.PanicError whose stack is logged.
func Inline(tb testing.TB, r *troupe.Registry, mw []troupe.Middleware, opts ...client.ClientOption) *Pushes {
	tb.Helper()
	p := &Pushes{tb: tb, inline: &runner{tb: tb, registry: r, mw: mw}}
	p.Client = p.newClient(opts)
	p.inline.pushes = p
	return p
}

// Record notes what is pushed through rdb from now on, by any client.Client, and
// lets it pass: for tests with a real daemon.
func Record(tb testing.TB, rdb redis.UniversalClient) *Pushes {
	tb.Helper()
	p := &Pushes{tb: tb}
	rdb.AddHook(hook{p: p, pass: true})
	return p
}

func (p *Pushes) newClient(opts []client.ClientOption) *client.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:0", Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("testkit: a fake client has no Redis behind it")
		},
	})
	p.tb.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(hook{p: p})
	p.rdb = rdb
	return client.New(rdb, append([]client.ClientOption{client.WithEncryption(testKey)}, opts...)...)
}

// testKey is for tests whose client has no key.
var testKey = troupe.Encryption{Keys: map[int][]byte{1: make([]byte, troupe.KeySize)}}

// opened puts the last argument of a job in clear.
func (p *Pushes) opened(j Pushed) (Pushed, error) {
	if p.Client == nil || !job.Sealed(j.Payload.Args()) {
		return j, nil
	}
	j.Payload, j.Sealed = j.Payload.Clone(), true
	return j, p.Client.Open(j.Payload)
}

// All returns every job pushed since the last Clear, in order, run or not.
func (p *Pushes) All() []Pushed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// Jobs returns the jobs that wait: pushed and not drained, in order.
func (p *Pushes) Jobs() []Pushed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.waiting)
}

// Clear forgets everything.
func (p *Pushes) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all, p.waiting, p.locks, p.debounces, p.results, p.batches = nil, nil, nil, nil, nil, nil
}

// Drain runs the waiting jobs, oldest first and scheduled ones as if they were
// due, and those that they push, until none is left or one fails. It returns how
// many have run, the failed one included. A failed job is not retried: test
// retries with a Kit. What a handler pushes through client.FromContext comes here, too. Jobs run in the test's goroutine, inside their class's
// middleware and mw; errors are those of Inline.
func (p *Pushes) Drain(ctx context.Context, r *troupe.Registry, mw ...troupe.Middleware) (int, error) {
	return p.drain(ctx, r, mw, func(Pushed) bool { return true })
}

// DrainQueue is Drain for what is in one queue now: no other queue and no
// scheduled job.
func (p *Pushes) DrainQueue(ctx context.Context, queue string, r *troupe.Registry, mw ...troupe.Middleware) (int, error) {
	return p.drain(ctx, r, mw, func(j Pushed) bool { return j.At.IsZero() && j.Payload.Queue() == queue })
}

// DrainOne runs the oldest waiting job; false if none waits.
func (p *Pushes) DrainOne(ctx context.Context, r *troupe.Registry, mw ...troupe.Middleware) (bool, error) {
	return p.drainOne(ctx, r, mw, func(Pushed) bool { return true })
}

func (p *Pushes) drain(ctx context.Context, r *troupe.Registry, mw []troupe.Middleware, which func(Pushed) bool) (int, error) {
	for n := 0; ; n++ {
		ran, err := p.drainOne(ctx, r, mw, which)
		if err != nil {
			return n + 1, err
		}
		if !ran {
			return n, nil
		}
	}
}

func (p *Pushes) drainOne(ctx context.Context, r *troupe.Registry, mw []troupe.Middleware, which func(Pushed) bool) (bool, error) {
	p.mu.Lock()
	i := slices.IndexFunc(p.waiting, which)
	if i < 0 {
		p.mu.Unlock()
		return false, nil
	}
	next := p.waiting[i]
	p.waiting = slices.Delete(p.waiting, i, i+1)
	p.mu.Unlock()
	run := runner{tb: p.tb, registry: r, mw: mw, pushes: p}
	return true, run.run(ctx, next.Payload)
}

// add notes jobs and runs them if that is the mode.
func (p *Pushes) add(ctx context.Context, jobs []Pushed) error {
	for i := range jobs {
		var err error
		if jobs[i], err = p.opened(jobs[i]); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.all = append(p.all, jobs...)
	if p.inline == nil {
		p.waiting = append(p.waiting, jobs...)
	}
	p.mu.Unlock()
	if p.inline == nil {
		return nil
	}
	for _, j := range jobs {
		if err := p.inline.run(ctx, j.Payload); err != nil {
			return fmt.Errorf("run inline: %w", err)
		}
	}
	return nil
}

// hook stands where the client hands its commands to the connection.
type hook struct {
	p    *Pushes
	pass bool
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		unique, err := uniqueOf(cmd)
		debounced, wrong := debouncedOf(cmd)
		switch {
		case cmp.Or(err, wrong) != nil:
			return cmp.Or(err, wrong)
		case debounced != nil:
			return h.pushDebounced(ctx, cmd, debounced, next)
		case unique != nil:
			return h.pushUnique(ctx, cmd, unique, next)
		case batchScript(cmd):
			return h.runBatch(ctx, cmd, next)
		case h.pass:
			return next(ctx, cmd)
		case cmd.Name() == "sscan" && h.p.madeBatches() != nil: // of the batches within one
			return h.p.madeBatches().Process(ctx, cmd)
		}
		return fmt.Errorf("testkit: a fake client has no answer to %s", cmd.Name())
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var jobs []Pushed
		for _, cmd := range cmds {
			found, err := pushedBy(cmd.Args())
			if err != nil {
				return err
			}
			jobs = append(jobs, found...)
		}
		if h.pass {
			if err := next(ctx, cmds); err != nil {
				return err
			}
		}
		err := h.p.add(ctx, jobs)
		if err != nil { // the fault of those that carry jobs, not of the set of queues
			for _, cmd := range cmds {
				if found, _ := pushedBy(cmd.Args()); len(found) > 0 {
					cmd.SetErr(err)
				}
			}
		}
		return err
	}
}

// scriptOf is the name of the script that a command runs; "" for another command.
func scriptOf(cmd redis.Cmder) string {
	args := cmd.Args()
	switch {
	case len(args) < 3:
	case cmd.Name() == "evalsha":
		return script.Names()[fmt.Sprint(args[1])]
	case cmd.Name() == "eval": // where Redis did not know it
		for hash, name := range script.Names() {
			if source, _ := script.Source(hash); source == args[1] {
				return name
			}
		}
	}
	return ""
}

// pushedBy reads the jobs out of a command of the client's.
func pushedBy(args []any) ([]Pushed, error) {
	text := func(i int) string {
		switch v := args[i].(type) {
		case []byte:
			return string(v)
		default:
			return fmt.Sprint(v)
		}
	}
	var jobs []Pushed
	add := func(raw string, at time.Time) error {
		payload, err := troupe.ParsePayload([]byte(raw))
		if err != nil {
			return fmt.Errorf("testkit: a push of what is no job: %w", err)
		}
		jobs = append(jobs, Pushed{Payload: payload, At: at})
		return nil
	}
	if len(args) < 3 {
		return nil, nil
	}
	switch name, key := text(0), text(1); {
	case name == "lpush" && strings.HasPrefix(key, keys.Queue("")):
		for i := 2; i < len(args); i++ {
			if err := add(text(i), time.Time{}); err != nil {
				return nil, err
			}
		}
	case name == "zadd" && key == keys.Schedule:
		for i := 2; i+1 < len(args); i += 2 {
			at, err := timeOf(text(i))
			if err == nil {
				err = add(text(i+1), at)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return jobs, nil
}

// timeOf reads a score of the scheduled set.
func timeOf(score string) (at time.Time, err error) {
	var due float64
	if _, err := fmt.Sscan(score, &due); err != nil {
		return at, fmt.Errorf("testkit: score %q: %w", score, err)
	}
	return time.UnixMicro(int64(due * 1e6)), nil
}
