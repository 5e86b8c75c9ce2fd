package testkit

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Faults is a faulty way to a Redis: clients on it see what a bad network or a
// sick server does to single commands, by rule or by chance. What no fault
// names passes unchanged. It is safe for concurrent use, and works in a
// testing/synctest bubble on a Memory.
type Faults struct {
	tb   testing.TB
	to   redis.Options // of the Redis behind
	wg   sync.WaitGroup
	done chan struct{} // closed at the end of the test

	mu     sync.Mutex
	rules  []*Rule
	chance *chance
	ways   map[*way]bool
	down   bool
	frozen chan struct{} // not nil: nothing passes until it is closed
	ended  bool
}

// Command is a command as a client has sent it: its name and arguments.
type Command []string

// Is tells whether the command's name is name, in any case.
func (c Command) Is(name string) bool { return strings.EqualFold(c[0], name) }

// Mentions tells whether an argument contains text: a key, a part of a job.
func (c Command) Mentions(text string) bool {
	return slices.ContainsFunc(c[1:], func(arg string) bool { return strings.Contains(arg, text) })
}

// Fault says which commands something happens to, and what.
type Fault struct {
	Command string             // name in any case; "": every command
	Where   func(Command) bool // nil: all of that name
	Skip    int                // so many that fit pass before the first that does not
	Times   int                // how often; 0: always
	Do      Effect
}

// Rule is a Fault that was added.
type Rule struct {
	f     *Faults
	fault Fault
	seen  int
	hits  int
}

// chance is a fault by seed.
type chance struct {
	r       *rand.Rand
	p       float64
	effects []Effect
}

// NewFaults returns a faulty way to the Redis that to leads to: the Options of a
// client, or of a Memory. It ends with the test; in a bubble make it inside.
func NewFaults(tb testing.TB, to *redis.Options) *Faults {
	tb.Helper()
	f := &Faults{tb: tb, to: *to, ways: map[*way]bool{}, done: make(chan struct{})}
	tb.Cleanup(f.end)
	return f
}

// Options are those of a client on this way, without a repeated try of its own
// unless to had them: a fault is to be seen, not hidden.
func (f *Faults) Options() *redis.Options {
	opts := f.to
	opts.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		if err := f.serve(ctx, far); err != nil {
			_ = near.Close()
			return nil, err
		}
		return near, nil
	}
	opts.MaxRetries = cmp.Or(opts.MaxRetries, -1)
	return &opts
}

// Client returns a client on this way, closed at the end of the test.
func (f *Faults) Client() *redis.Client {
	c := redis.NewClient(f.Options())
	f.tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Listen opens a loopback port that leads this way, for other processes, and
// returns its address.
func (f *Faults) Listen() string {
	f.tb.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		f.tb.Fatalf("faults: %v", err)
	}
	f.tb.Cleanup(func() { _ = l.Close() })
	f.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			if f.serve(context.Background(), in) != nil {
				_ = in.Close()
			}
		}
	})
	return l.Addr().String()
}

// Add puts a fault in force. Of several that fit a command the one that was added
// first happens.
func (f *Faults) Add(fault Fault) *Rule {
	f.tb.Helper()
	if fault.Do == nil {
		f.tb.Fatalf("faults: Do is nil, expected an Effect such as testkit.CutAfter")
	}
	r := &Rule{f: f, fault: fault}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
	return r
}

// Hits is how often the fault has happened.
func (r *Rule) Hits() int {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return r.hits
}

// Remove ends the fault.
func (r *Rule) Remove() {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.f.rules = slices.DeleteFunc(r.f.rules, func(other *Rule) bool { return other == r })
}

// AtRandom lets one of effects happen to each command with probability p, drawn
// from seed; p = 0 ends it. Commands that come at the same time are drawn for in
// the order of their coming, which only one client at a time repeats.
func (f *Faults) AtRandom(seed uint64, p float64, effects ...Effect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chance = nil
	if p > 0 {
		f.chance = &chance{rand.New(rand.NewPCG(seed, seed)), p, effects}
	}
}

// Cut ends every connection now. New ones may be made.
func (f *Faults) Cut() {
	for _, w := range f.open() {
		w.close()
	}
}

// Down ends every connection and refuses new ones until Up, as a server does
// that is not running.
func (f *Faults) Down() {
	f.mu.Lock()
	f.down = true
	f.mu.Unlock()
	f.Cut()
}

// Up ends Down.
func (f *Faults) Up() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = false
}

// Freeze lets nothing pass in either direction, and closes nothing: a cable that
// was pulled. New connections are made and stay as mute. Thaw ends it, and what
// was under way arrives.
func (f *Faults) Freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen == nil {
		f.frozen = make(chan struct{})
	}
}

// Thaw ends Freeze.
func (f *Faults) Thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen != nil {
		close(f.frozen)
		f.frozen = nil
	}
}

// pick returns what is to happen to a command, nil for nothing.
func (f *Faults) pick(c Command) Effect {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.fault.Command != "" && !c.Is(r.fault.Command) || r.fault.Where != nil && !r.fault.Where(c) {
			continue
		}
		r.seen++
		if r.seen <= r.fault.Skip || r.fault.Times > 0 && r.hits == r.fault.Times {
			continue
		}
		r.hits++
		return r.fault.Do
	}
	if f.chance != nil && f.chance.r.Float64() < f.chance.p {
		return f.chance.effects[f.chance.r.IntN(len(f.chance.effects))]
	}
	return nil
}

// thawed waits while the way is frozen.
func (f *Faults) thawed() {
	for {
		f.mu.Lock()
		frozen := f.frozen
		f.mu.Unlock()
		if frozen == nil {
			return
		}
		select {
		case <-frozen:
		case <-f.done:
			return
		}
	}
}

func (f *Faults) open() (ways []*way) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.ways {
		ways = append(ways, w)
	}
	return ways
}

func (f *Faults) end() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	close(f.done)
	f.Cut()
	f.wg.Wait()
}

// dial connects to the Redis behind.
func (f *Faults) dial(ctx context.Context) (net.Conn, error) {
	if f.to.Dialer != nil {
		return f.to.Dialer(ctx, f.to.Network, f.to.Addr)
	}
	d := net.Dialer{Timeout: cmp.Or(f.to.DialTimeout, 5*time.Second)}
	return d.DialContext(ctx, cmp.Or(f.to.Network, "tcp"), f.to.Addr)
}

// serve leads near, the end of a client's connection, to the Redis.
func (f *Faults) serve(ctx context.Context, near net.Conn) error {
	f.mu.Lock()
	refuse := f.down || f.ended
	f.mu.Unlock()
	if refuse {
		return f.refused()
	}
	far, err := f.dial(ctx)
	if err != nil {
		return err
	}
	w := &way{f: f, near: near, far: far, arrived: make(chan struct{}, 1), gone: make(chan struct{})}
	f.mu.Lock()
	if f.down || f.ended { // meanwhile
		f.mu.Unlock()
		_ = far.Close()
		return f.refused()
	}
	f.ways[w] = true
	f.wg.Add(3)
	f.mu.Unlock()
	go func() { defer f.wg.Done(); w.send() }()
	go func() { defer f.wg.Done(); w.receive() }()
	go func() { defer f.wg.Done(); w.answer() }()
	return nil
}

// refused is what dialling a port gives on which nobody listens.
func (f *Faults) refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("%w by the test", syscall.ECONNREFUSED)}
}

func (f *Faults) drop(w *way) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ways, w)
}
