package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxShare is the largest Env.Share.
const maxShare = 10_000

// DefaultLease is the lease of a fetcher or rescuer that was given none.
const DefaultLease = 30 * time.Second

var (
	errClosed   = errors.New("the fetcher is closed")
	errPanicked = errors.New("the call ended in a panic")
)

// owner is what the reliable fetchers of one server and of a cluster have in
// common: incarnations, each registered under a lease, and what calls of theirs
// have left undecided.
type owner struct {
	env    Env
	kind   kind
	reg    registry
	names  []string       // of the queues
	index  map[string]int // queue name -> place in names
	listed string         // names as a JSON array, for the registry
	ttl    any            // the lease in ms, as an argument of scripts
	wants  func(int, *rand.Rand) []Want
	gate   gate
	peeks  *peeks
	sick   *sickQueues

	mu         sync.Mutex // guards what follows; never held during a call
	cur        *incarnation
	generation uint64
	calls      uint64 // number of the last call that was to take
	lost       []lostCall
	found      map[int]string // by lostCall.queue: the last receipt that resume has found
	page       page           // of resume
	stash      []Unit         // taken by a failed call, found by resume
	busy       int            // units handed out and not settled, about
	suspects   []Unit         // likewise, by a failed TakeSuspect
	renewed    time.Time
	rand       *rand.Rand

	registering bool // register was sent
	registered  bool // and answered
	doubt       bool // a call has failed: resume before the next one
	amnesia     bool // Redis has forgotten us: restore before the next call
	leaving     bool // leave was sent
	closed      bool
}

// kind is what one server and a cluster do in ways of their own.
type kind interface {
	furnish(in *incarnation)
	settleIn(ctx context.Context, in *incarnation) error // what follows a registration
	mend(ctx context.Context, doubt bool) error          // recover of a registered one
	depart(ctx context.Context, in *incarnation) (left int, err error)
	Settle(ctx context.Context, moves []Move) ([]Result, error)
}

// lostCall is a call of which no answer came.
type lostCall struct {
	prefix string // of its receipts
	queue  int    // on a cluster, where each call is of one queue
}

// asks numbers a call that is to take: it counts among the lost until answered is
// called, however it ends. mark begins the receipts. f.mu is held.
func (f *owner) asks(in *incarnation, mark string, queue int) (prefix string) {
	f.calls++
	prefix = mark + receiptPrefix(f.calls)
	if f.cur == in {
		f.lost = append(f.lost, lostCall{prefix, queue})
	}
	return prefix
}

// answered notes that what calls took is known.
func (f *owner) answered(prefixes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = slices.DeleteFunc(f.lost, func(c lostCall) bool { return slices.Contains(prefixes, c.prefix) })
}

// hand adds to units what of n there was already, and announces all.
func (f *owner) hand(in *incarnation, n int, units []Unit) []Unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	have := min(n-len(units), len(f.stash))
	if have > 0 && f.cur.n == in.n {
		units = append(f.stash[:have:have], units...)
	} else {
		have = 0
	}
	f.announce(units...)
	f.stash = f.stash[have:]
	return units
}

// announce tells of units that a call is about to return.
func (f *owner) announce(units ...Unit) {
	if f.env.Taken != nil && len(units) > 0 {
		f.env.Taken(units)
	}
}

// lostArgs are the last arguments of a page of resume: where it begins, and what it
// looks for. f.mu is held.
func (f *owner) lostArgs(args []any, queue int) []any {
	args = append(args, f.found[queue])
	for _, call := range f.lost {
		if call.queue == queue {
			args = append(args, call.prefix)
		}
	}
	return args
}

// adopt stashes what a page has found of a queue's lost calls, in the order of the
// fetch. f.mu is held.
func (f *owner) adopt(queue int, units []Unit) {
	for _, u := range units {
		if u.Suspect {
			f.suspects = append(f.suspects, u)
		} else {
			f.stash = append(f.stash, u)
		}
	}
	if n := len(units); n > 0 {
		if f.found == nil {
			f.found = make(map[int]string)
		}
		f.found[queue] = units[n-1].Receipt
	}
}

// incarnation is a fetcher id with its keys under one generation. It is
// immutable; a new generation is a new value.
type incarnation struct {
	n          uint64
	id         string
	generation string
	lease      string
	fenced     string

	// On one server:
	wips    []string // per queue, then per queue of suspects
	head    []any    // number of keys and keys of take, behind two free places
	lapHead []any    // the same with laps

	// On a cluster:
	places [][]string // per queue and then per queue of suspects: the list and the private place
}

// init checks env and makes the first incarnation of f, which k embeds.
func (f *owner) init(env Env, k kind) error {
	if env.Identity == "" || env.Capsule == "" {
		return fmt.Errorf("fetch: identity %q, capsule %q, expected both", env.Identity, env.Capsule)
	}
	if id := env.Identity + "#" + env.Capsule; strings.Contains(id, "}:") {
		return fmt.Errorf("fetch: fetcher id %q contains }:, which ends the name of a queue in a key", id)
	}
	if env.Share < 0 || env.Share > maxShare {
		return fmt.Errorf("fetch: Share is %d, expected 0 to %d", env.Share, maxShare)
	}
	if err := env.checkBytes(); err != nil {
		return err
	}
	if env.Lease < 0 || env.Lease > 0 && env.Lease < time.Millisecond {
		return fmt.Errorf("fetch: lease %v, expected a millisecond or more", env.Lease)
	}
	if env.Lease == 0 {
		env.Lease = DefaultLease
	}
	f.env, f.kind, f.reg = env, k, registryOf(env.Redis)
	f.names = env.Queues.Names()
	listed, err := json.Marshal(f.names)
	if err != nil {
		return fmt.Errorf("fetch: queue names: %w", err)
	}
	f.listed, f.ttl = string(listed), env.Lease.Milliseconds()
	f.index = make(map[string]int, len(f.names))
	for i, name := range f.names {
		f.index[name] = i
	}
	f.wants, f.rand = planner(env.Queues), newRand(env)
	f.gate = newGate()
	f.sick = &sickQueues{log: env.Logger}
	f.begin()
	return nil
}

// newRand draws differently in each process, since identities differ, and
// equally in each repetition of a simulation.
func newRand(env Env) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(env.Identity + "#" + env.Capsule))
	return rand.New(rand.NewPCG(h.Sum64(), 0))
}

// begin starts a new incarnation, not yet registered: what the old one held is
// somebody else's.
func (f *owner) begin() {
	n := uint64(1)
	if f.cur != nil {
		n = f.cur.n + 1
	}
	f.cur = &incarnation{n: n, id: fmt.Sprintf("%s#%s.%d", f.env.Identity, f.env.Capsule, n)}
	f.registering, f.registered, f.doubt, f.amnesia = false, false, false, false
	f.generation, f.lost, f.found, f.stash, f.suspects, f.busy = 0, nil, nil, nil, nil, 0
	f.next()
}

// next is a new generation of the current incarnation.
func (f *owner) next() *incarnation {
	f.generation++
	in := &incarnation{n: f.cur.n, id: f.cur.id, generation: fmt.Sprint(f.generation)}
	in.lease, in.fenced = f.reg.lease(in.id), f.reg.fenced(in.id)
	f.kind.furnish(in)
	f.cur = in
	return in
}

// owns tells whether u was fetched by this incarnation.
func (f *owner) owns(in *incarnation, u Unit) bool {
	_, known := f.index[u.Queue]
	return known && u.Receipt != "" && u.Incarnation == in.n
}

// Durable is true: units stay in Redis until they are settled.
func (f *owner) Durable() bool { return true }

// Open registers the fetcher; see Fetcher.
func (f *owner) Open(ctx context.Context) error {
	return f.call(ctx, "open", func(*incarnation) error { return nil })
}

// Renew extends the lease; see Fetcher.
func (f *owner) Renew(ctx context.Context) error {
	return f.call(ctx, "renew", func(in *incarnation) error { return f.renew(ctx, in) })
}

func (f *owner) renew(ctx context.Context, in *incarnation) error {
	now := time.Now()
	err := renewScript.Run(ctx, f.env.Redis, []string{f.reg.procs, f.reg.leases, in.lease}, in.id, in.generation, f.ttl).Err()
	if err == nil {
		f.mu.Lock()
		f.renewed = now
		f.mu.Unlock()
	}
	return err
}

// call runs fn side by side with other calls, after registration and after the
// doubts that an earlier call has left. An error of fn leaves a doubt; FENCED
// is settled at once, and fn run again if it turns out that nothing was taken
// from us (the lease had merely run out); so is TORN, after what is held was written
// back: Redis has lost units of a parcel. Errors of Redis carry what was tried.
func (f *owner) call(ctx context.Context, what string, fn func(*incarnation) error) error {
	for again := false; ; again = true {
		in, err := f.enter(ctx)
		if err == nil {
			err = f.inside(in, fn)
			if !again && (redis.HasErrorPrefix(err, "FENCED") || redis.HasErrorPrefix(err, "TORN")) {
				continue
			}
		}
		var fenced *FencedError
		if err == nil || errors.As(err, &fenced) {
			return err
		}
		return fmt.Errorf("%s: %w", what, err)
	}
}

// inside runs fn, and gives up the place at the gate after it. A panic leaves a
// doubt, too: what others wrote may be the reason, and the caller go on.
func (f *owner) inside(in *incarnation, fn func(*incarnation) error) (err error) {
	err = errPanicked
	defer func() {
		if err != nil {
			f.mu.Lock()
			f.doubt = f.doubt || f.cur == in
			f.amnesia = f.amnesia || f.cur == in && redis.HasErrorPrefix(err, "TORN")
			f.mu.Unlock()
		}
		f.gate.leave()
	}()
	err = fn(in)
	return err
}

// plan asks the queues, whose code may be anybody's, how n units are to be divided.
func (f *owner) plan(n int) []Want {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wants(n, f.rand)
}

// enter takes a place at the gate as a registered fetcher without doubts.
func (f *owner) enter(ctx context.Context) (*incarnation, error) {
	for {
		if err := f.gate.enter(ctx); err != nil {
			return nil, err
		}
		f.mu.Lock()
		in, closed := f.cur, f.closed
		ready := f.registered && !f.doubt && !f.amnesia
		f.mu.Unlock()
		if ready && !closed {
			return in, nil
		}
		f.gate.leave()
		if closed {
			return nil, errClosed
		}
		if err := f.recover(ctx); err != nil {
			return nil, err
		}
	}
}

// recover does alone what must be done before the next call: register, find
// out what became of failed calls, write units back that Redis has forgotten.
func (f *owner) recover(ctx context.Context) error {
	if err := f.gate.enterAlone(ctx); err != nil {
		return err
	}
	defer f.gate.leaveAlone()
	f.mu.Lock()
	registered, doubt := f.registered, f.doubt
	f.mu.Unlock()
	if !registered {
		return f.register(ctx)
	}
	return f.kind.mend(ctx, doubt)
}

// register makes the current incarnation known.
func (f *owner) register(ctx context.Context) error {
	for {
		f.mu.Lock()
		in := f.cur
		f.registering = true
		f.mu.Unlock()
		err := f.enlist(ctx, in)
		if err == nil {
			err = f.kind.settleIn(ctx, in)
		}
		f.mu.Lock()
		if redis.HasErrorPrefix(err, "FENCED") || redis.HasErrorPrefix(err, "LATE") || errors.Is(err, errShut) {
			// An earlier try had been carried out, its lease has run out and a
			// rescuer came by, or will. Nothing was taken yet.
			f.begin()
			f.mu.Unlock()
			continue
		}
		f.registered = f.registered || err == nil
		f.mu.Unlock()
		return err
	}
}

// enlist writes in into the registry.
func (f *owner) enlist(ctx context.Context, in *incarnation) error {
	return registerScript.Run(ctx, f.env.Redis, []string{f.reg.procs, f.reg.leases, in.lease, in.fenced},
		in.id, f.listed, in.generation, f.ttl).Err()
}

// fenced begins anew after a rescuer has taken over.
func (f *owner) fenced(in *incarnation) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.env.Fenced != nil {
		f.env.Fenced(in.n)
	}
	f.begin()
	return &FencedError{ID: in.id, Incarnation: in.n}
}
