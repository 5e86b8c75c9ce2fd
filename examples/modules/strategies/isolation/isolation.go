// Package isolation lets a class of jobs that has crashed run one at a time,
// until it has behaved for a while. Other classes do not notice. It is one value
// that is two things: a supervision strategy, which sees the crashes of jobs, and
// a middleware, which sees the rest and can hold jobs back.
//
//	iso := isolation.New(isolation.Config{})
//	capsule := actors.Capsule{
//		Strategy:   iso.Strategy,
//		Middleware: []troupe.Middleware{iso.Middleware},
//	}
//
// A panic is a bug, and often one that shows when jobs of a class run at the same
// time, or that eats memory or connections: ten at once do ten times the harm.
// One at a time, the class still makes progress and can prove that it is well.
//
// While one job of an isolated class runs, the others do not wait for it, which
// would block their processors: they are parked (troupe.Park) for a random time.
// Parking is one atomic step in Redis and not a failure: no retry is used up, the
// bytes of the job stay what they are. Parked jobs lose their place in the queue.
// Jobs that were already running when their class was isolated run to their end.
//
// Each process isolates for itself.
package isolation

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/supervisor"
)

// ErrIsolated is the reason of a park.
var ErrIsolated = errors.New("class isolated after a crash, and a job of it is running")

// Config of an Isolation; the zero value works.
type Config struct {
	Clean     int           // jobs in a row that must succeed; 0 means 10
	CrashFree time.Duration // and so long ago must the last crash be; 0 means 1 min
	Pause     time.Duration // who finds another one running comes back within this; 0 means 5 s

	// OnChange is told when a class is isolated, and when that ends. It must not
	// call the Isolation.
	OnChange func(class string, isolated bool)
}

// Isolation is both: give it to one capsule as its Strategy, and its Middleware.
type Isolation struct {
	Strategy *supervisor.Strategy
	cfg      Config

	mu      sync.Mutex
	classes map[string]*class
}

type class struct {
	running  int // now
	isolated bool
	crash    time.Time // the last one
	clean    int       // successes in a row
}

// New returns an Isolation that otherwise supervises as supervisor.Default does.
func New(cfg Config) *Isolation {
	iso := &Isolation{cfg: cfg, classes: map[string]*class{}}
	iso.Strategy = supervisor.OneForOne(supervisor.Spec{Decide: iso.decide})
	return iso
}

// decide is the strategy's half: a job that panicked has crashed its processor.
func (iso *Isolation) decide(f supervisor.Failure) supervisor.Directive {
	if f.Job != nil {
		iso.update(f.Job.Class, func(c *class) {
			c.isolated, c.crash, c.clean = true, time.Now(), 0
		})
	}
	return supervisor.DefaultDecider(f)
}

// Middleware is the other half: it lets in one at a time, and sees who behaves.
func (iso *Isolation) Middleware(next troupe.Handler) troupe.Handler {
	return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		name, admitted := p.DisplayClass(), false
		iso.update(name, func(c *class) {
			if admitted = !c.isolated || c.running == 0; admitted {
				c.running++
			}
		})
		if !admitted {
			return troupe.Park(rand.N(cmp.Or(iso.cfg.Pause, 5*time.Second)), ErrIsolated)
		}
		err := errors.New("crashed") // unless Perform returns
		defer func() { iso.update(name, func(c *class) { iso.ended(c, err) }) }()
		err = next.Perform(ctx, p)
		return err
	})
}

// ended takes note of the end of a run. Errors isolate nobody, but who is
// isolated does not get out by failing.
func (iso *Isolation) ended(c *class, err error) {
	c.running--
	asked, _ := errors.AsType[*troupe.OutcomeError](err)
	switch {
	case err == nil:
		c.clean++
	case asked == nil || !asked.Park: // who was parked further in has shown nothing
		c.clean = 0
	}
	if c.clean >= cmp.Or(iso.cfg.Clean, 10) && time.Since(c.crash) >= cmp.Or(iso.cfg.CrashFree, time.Minute) {
		c.isolated = false
	}
}

// update changes what is known of a class.
func (iso *Isolation) update(name string, change func(*class)) {
	iso.mu.Lock()
	defer iso.mu.Unlock()
	c := iso.classes[name]
	if c == nil {
		c = new(class)
		iso.classes[name] = c
	}
	was := c.isolated
	change(c)
	if c.isolated != was && iso.cfg.OnChange != nil {
		iso.cfg.OnChange(name, c.isolated)
	}
}

// Isolated returns the isolated classes, sorted.
func (iso *Isolation) Isolated() []string {
	iso.mu.Lock()
	defer iso.mu.Unlock()
	names := slices.Sorted(maps.Keys(iso.classes))
	return slices.DeleteFunc(names, func(name string) bool { return !iso.classes[name].isolated })
}
