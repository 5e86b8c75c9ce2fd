// Package breaker stops calling what is down: a circuit breaker for classes of
// jobs. It is one value that is two things: a supervision strategy, which sees
// the crashes of jobs, and a middleware, which sees their errors and can hold
// jobs back.
//
//	b := breaker.New(breaker.Config{})
//	capsule := actors.Capsule{
//		Strategy:   b.Strategy,
//		Middleware: []troupe.Middleware{b.Middleware},
//	}
//
// Each class has a circuit of its own, or shares one with the other classes of a
// dependency (Config.Key):
//
//	closed     Jobs run. When the share of errors and crashes among the runs of a
//	           window gets too high, the circuit opens. Discard and Kill are no
//	           errors here: they are verdicts on the job, not on the dependency.
//	open       No job runs: each is parked (troupe.Park) until the circuit may be
//	           tried again, plus a random time, so that the parked do not come back
//	           at one instant. Parking is one atomic step in Redis and no failure:
//	           no retry is used up, the bytes of the job stay what they are.
//	half-open  Exactly one job runs, the probe. If it succeeds the circuit closes,
//	           else it opens again.
//
// A class whose jobs may hang needs a Timeout (troupe.Options): as long as
// the probe runs, the others wait. Parked jobs lose their place in the queue.
// Each process has circuits of its own, and probes for itself.
package breaker

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/supervisor"
)

// ErrOpen is the reason of a park.
var ErrOpen = errors.New("circuit open")

// Config of a Breaker; the zero value works.
type Config struct {
	Ratio   float64       // of failures that opens a circuit; 0 means 0.5
	Minimum uint          // runs in Window before the ratio means anything; 0 means 10
	Window  time.Duration // 0 means 1 min
	Delay   time.Duration // from the opening to the probe; 0 means 30 s

	// Key names the circuit of a class; nil means one for each class.
	Key func(class string) string
	// OnChange is told of every change. It must not call the Breaker.
	OnChange func(key string, from, to circuitbreaker.State)
}

// Breaker is both: give it to one capsule as its Strategy and its Middleware.
type Breaker struct {
	Strategy *supervisor.Strategy
	cfg      Config

	mu       sync.Mutex
	circuits map[string]*circuit // by key
}

// New returns a Breaker that otherwise supervises as supervisor.Default does.
func New(cfg Config) *Breaker {
	if cfg.Key == nil {
		cfg.Key = func(class string) string { return class }
	}
	cfg.Delay = cmp.Or(cfg.Delay, 30*time.Second)
	b := &Breaker{cfg: cfg, circuits: map[string]*circuit{}}
	b.Strategy = supervisor.OneForOne(supervisor.Spec{Decide: b.decide})
	return b
}

// decide is the strategy's half. Job is set when a processor has crashed because
// its job panicked.
func (b *Breaker) decide(f supervisor.Failure) supervisor.Directive {
	if f.Job != nil {
		b.circuit(f.Job.Class).crashed()
	}
	return supervisor.DefaultDecider(f)
}

// Middleware is the other half: it parks what may not run now, and counts what
// ends without a crash.
func (b *Breaker) Middleware(next troupe.Handler) troupe.Handler {
	return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		c := b.circuit(p.DisplayClass())
		era, wait, ok := c.enter()
		if !ok {
			return troupe.Park(wait+rand.N(b.cfg.Delay), ErrOpen)
		}
		err := errCrashed // unless Perform returns
		defer func() { c.leave(era, err) }()
		err = next.Perform(ctx, p)
		return err
	})
}

// State of the circuit of a class, for a health page.
func (b *Breaker) State(class string) circuitbreaker.State { return b.circuit(class).breaker.State() }

func (b *Breaker) circuit(class string) *circuit {
	key := b.cfg.Key(class)
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.circuits[key]; c != nil {
		return c
	}
	c := new(circuit)
	c.breaker = circuitbreaker.NewBuilder[any]().
		WithFailureRateThreshold(cmp.Or(b.cfg.Ratio, 0.5), cmp.Or(b.cfg.Minimum, 10), cmp.Or(b.cfg.Window, time.Minute)).
		WithDelay(b.cfg.Delay).
		WithSuccessThreshold(1). // and one job at a time to reach it: the probe
		OnStateChanged(func(e circuitbreaker.StateChangedEvent) {
			c.era++
			if b.cfg.OnChange != nil {
				b.cfg.OnChange(key, e.OldState, e.NewState)
			}
		}).Build()
	b.circuits[key] = c
	return c
}

// circuit is the library's state machine, and what jobs that run side by side
// need beside it.
type circuit struct {
	mu      sync.Mutex // held around every use that may change the state
	breaker circuitbreaker.CircuitBreaker[any]

	// era grows with each change of state. The end of a job that began in an
	// earlier one tells nothing about the present: a slow success from before the
	// outage must not pass for the probe's.
	era int
}

// enter admits a run, or tells when the circuit may be tried again; that is 0
// while a probe is under way.
func (c *circuit) enter() (era int, wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ok = c.breaker.TryAcquirePermit() // half-opens the circuit for the first one after the delay
	return c.era, c.breaker.RemainingDelay(), ok
}

var errCrashed = errors.New("crashed")

// leave notes how a run has ended.
func (c *circuit) leave(era int, err error) {
	asked, _ := errors.AsType[*troupe.OutcomeError](err)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case era != c.era:
	case err == nil, asked != nil && (asked.Discard || asked.Kill):
		c.breaker.RecordSuccess()
	case errors.Is(err, errCrashed), asked != nil && asked.Park:
		// The strategy counts crashes; a job parked further in has shown nothing.
		// But a probe is over, and did not succeed.
		if c.breaker.IsHalfOpen() {
			c.breaker.Open()
		}
	default:
		c.breaker.RecordFailure()
	}
}

// crashed counts a crash, whenever its job began: that it happened is news.
func (c *circuit) crashed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.breaker.IsOpen() {
		c.breaker.RecordFailure()
	}
}
