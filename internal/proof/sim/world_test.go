package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// world is one run of a plan: a Redis, the fleet, and what waits at the gate.
type world struct {
	t         *testing.T // of the bubble; never failed in it
	plan      Plan
	bug       *bug // nil: none
	random    *rand.Rand
	redis     *miniredis.Miniredis
	server    *server.Server
	loaded    map[string]bool // the scripts that Redis has, by hash
	preloaded bool            // it has all of them, and gets each at its first use
	began     time.Time

	mu      sync.Mutex // guards what follows; never held while anybody runs
	arrived chan struct{}
	conns   []*conn
	dials   int
	acts    []*act
	turns   []*goTurn
	names   *strings.Replacer // identities -> names
	down    time.Time         // until then there is no Redis
	loading time.Time         // and until then it loads its data

	full     time.Time // until then Redis is out of memory
	refusing time.Time // and until then it refuses something

	saved []*snapshot
	fell  time.Time // when Redis fell back

	places  []*place
	all     []*process
	peers   []*peer
	client  *owner
	pushing int // goroutines of the client
	waits   []*waiting
	over    context.Context // ends as the world is wound up
	unwait  func()
	alarms  []alarm
	book    book
	ending  bool // the fleet is being stopped in good order

	steps int
	seen  map[string]int // what has happened, for the table of a long run
	trace []string
	wrong error // what did not hold; the first counts
}

// owner is whose commands and acts wait: a process, the client.
type owner struct {
	name     string
	place    *place // nil: of the client
	steps    *steps
	resumes  time.Time
	dead     bool
	faulted  time.Time // the last fault
	told     time.Time // likewise, if nothing has happened to it but that it was told to stop
	stopping bool
}

// place is where in the fleet processes follow each other.
type place struct {
	index int
	steps steps
	n     int // processes so far
	now   *process
}

// steps counts what was let through of a place, or of the client.
type steps struct{ all, ofJobs, ofWays, ofPushes int }

// act is a step of a job's run: it waits for its turn as commands do.
type act struct {
	owner *owner
	key   string
	from  time.Time
	since time.Time
	do    func()        // by the world, when it is let through
	ready chan struct{} // closed then
	let   bool
	off   bool // nobody waits for it any more
}

// goTurn is a goroutine of a daemon that is ready to start, or the mailbox of an
// actor that has something to do.
type goTurn struct {
	process, what string
	f             func()
}

// current is the world of the running bubble; daemons find it by their turns.
var current atomic.Pointer[world]

// takeTurn is the Hook of package turn.
func takeTurn(process, what string, f func()) {
	w := current.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns = append(w.turns, &goTurn{process, what, f})
	w.note()
}

// settle lets the daemons' own goroutines run, one after the other, until none is
// ready. Which is next is drawn; of the dead ones nothing is.
func (w *world) settle() {
	for {
		synctest.Wait()
		w.mu.Lock()
		all := w.turns
		w.turns = nil
		if len(all) == 0 {
			w.mu.Unlock()
			return
		}
		var live []*goTurn
		for _, t := range all {
			if p := w.book.owners[t.process]; p != nil && p.dead {
				go t.f()
			} else {
				live = append(live, t)
			}
		}
		name := func(t *goTurn) string { return w.names.Replace(t.process) + " " + t.what }
		slices.SortStableFunc(live, func(a, b *goTurn) int { return strings.Compare(name(a), name(b)) })
		if len(live) > 0 {
			i := w.random.IntN(len(live))
			if *pending {
				w.say("        %s (%d)", name(live[i]), len(live))
			}
			go live[i].f()
			w.turns = append(slices.Delete(live, i, i+1), w.turns...)
		}
		w.mu.Unlock()
		if len(live) > 0 {
			time.Sleep(time.Microsecond) // an instant of its own
		}
	}
}

// alarm is something that the plan has for a time.
type alarm struct {
	at   time.Time
	what func()
}

func newWorld(t *testing.T, p Plan, b *bug) *world {
	w := &world{
		t: t, plan: p, bug: b, random: rand.New(rand.NewPCG(p.Order, 1)), began: time.Now(),
		redis: miniredis.NewMiniRedis(), arrived: make(chan struct{}, 1),
		names: strings.NewReplacer(), seen: map[string]int{}, loaded: map[string]bool{},
	}
	if c, err := w.redis.Dial(); err == nil { // starts it, without a port
		_ = c.Close()
	}
	synctest.Wait()
	w.server = w.redis.Server()
	w.over, w.unwait = context.WithCancel(context.Background())
	current.Store(w)
	w.redis.ClockTTL(true)
	w.redis.Seed(1)
	w.preloaded = p.Order%4 != 0 // else every first use of a script is a step more
	w.book.open(w)
	return w
}

// note tells the world that something waits. w.mu may be held.
func (w *world) note() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%5d %12s ", w.steps, time.Since(w.began))+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == nil {
		w.wrong = errors.New(w.names.Replace(fmt.Sprintf(format, args...)))
		w.say("WRONG: %v", w.wrong)
	}
}

func (w *world) after(d time.Duration, what func()) {
	w.alarms = append(w.alarms, alarm{time.Now().Add(d), what})
}

// option is something that could be let through now.
type option struct {
	key    string
	since  time.Time // tells two of the same key apart: no two steps have one instant
	weight int
	do     func()
}

// options lists what waits and may go, in an order that replays, and when the
// next of the rest may.
func (w *world) options() (list []option, next time.Time) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	soon := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	add := func(o *owner, from, since time.Time, key string, do func()) {
		if o.resumes.After(from) {
			from = o.resumes
		}
		if from.After(now) {
			soon(from)
			return
		}
		weight := 3
		if o.place != nil {
			weight = w.plan.Fleet[o.place.index].Weight
		}
		list = append(list, option{o.name + " " + key, since, weight, do})
	}
	w.conns = slices.DeleteFunc(w.conns, func(c *conn) bool { return c.gone && len(c.cmds) == 0 && c.wait == nil })
	for _, c := range w.conns {
		switch {
		case c.answer != nil:
			add(c.owner, c.answer.from, c.answer.since, c.answer.key, func() { w.deliver(c) })
			continue
		case c.wait != nil && c.wait.until.After(now):
			soon(c.wait.until)
			continue
		case c.wait != nil: // by Redis, whatever becomes of the client
			list = append(list, option{c.owner.name + " end of " + w.brief(c.wait.words), c.wait.since, 3, func() { w.expire(c) }})
			continue
		case len(c.cmds) == 0:
			continue
		}
		head := c.cmds[0]
		add(c.owner, head.from, head.arrived, head.key, func() { w.exchange(c) })
	}
	w.acts = slices.DeleteFunc(w.acts, func(a *act) bool { return a.let || a.off })
	for _, a := range w.acts {
		add(a.owner, a.from, a.since, a.key, func() { w.perform(a) })
	}
	for _, p := range w.peers {
		from, key, do := p.next()
		switch {
		case do == nil:
		case from.After(now):
			soon(from)
		default:
			list = append(list, option{key, time.Time{}, 3, do})
		}
	}
	for _, a := range w.alarms {
		soon(a.at)
	}
	slices.SortStableFunc(list, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.key, b.key), a.since.Compare(b.since))
	})
	return list, next
}

// ring does what the plan has for now; in the order of its times.
func (w *world) ring() {
	slices.SortStableFunc(w.alarms, func(a, b alarm) int { return a.at.Compare(b.at) })
	for len(w.alarms) > 0 && !w.alarms[0].at.After(time.Now()) {
		what := w.alarms[0].what
		w.alarms = w.alarms[1:]
		what()
	}
}

// step lets one through and returns when nothing moves any more; while nothing
// can go it lets time pass.
func (w *world) step(limit time.Time) {
	w.ring()
	w.settle()
	w.answers()
	w.orphans()
	w.reap()
	list, next := w.options()
	if len(list) == 0 {
		if next.IsZero() || next.After(limit) {
			next = limit
		}
		t := time.NewTimer(time.Until(next))
		select {
		case <-w.arrived:
		case <-t.C:
		}
		t.Stop()
		w.settle()
		return
	}
	total := 0
	for _, o := range list {
		total += o.weight
	}
	n := w.random.IntN(total)
	i := 0
	for n >= list[i].weight {
		n -= list[i].weight
		i++
	}
	w.steps++
	w.say("%s (%d)", list[i].key, len(list))
	if *pending {
		for _, o := range list {
			w.say("            | %s", o.key)
		}
	}
	list[i].do()
	// The way to Redis and back. Every step has an instant of its own, so that no
	// two timers of different steps are due at once.
	w.settle()
	time.Sleep(time.Duration(20_000+w.random.IntN(180_000)) * time.Nanosecond) // a world is in a bubble
	w.settle()
}

// until steps until done holds; false when it does not in d, or too much happens.
func (w *world) until(d time.Duration, done func() bool) bool {
	limit, first := time.Now().Add(d), w.steps
	for w.wrong == nil && !done() {
		if time.Now().After(limit) || w.steps-first > most*int(max(d, longest)/longest) {
			return false
		}
		w.step(limit.Add(time.Millisecond))
	}
	return true
}

// run is the whole life of the world, but for its end.
func (w *world) run() {
	for i := range w.plan.Fleet {
		p := &place{index: i}
		w.places = append(w.places, p)
		w.after(time.Duration(7*i)*time.Millisecond, func() { w.start(p) })
	}
	for i := range w.plan.Peers {
		w.peers = append(w.peers, &peer{w: w, name: fmt.Sprintf("ruby%d", i+1), idle: time.Now()})
	}
	w.push()
	w.trouble()
	d := longest
	if len(w.plan.Limits) > 0 {
		d = slowest // each probe that fails rests again; a job that Ruby runs neither asks nor leaves: its slot ends after a minute
	}
	if !w.until(d, w.quiescent) {
		w.fail("after %s and %d steps there is still work, or a push that does not end: %s", time.Since(w.began), w.steps, w.book.unfinished()+w.unanswered())
	}
	if w.wrong == nil {
		w.book.kept()
	}
	w.ending = true
	for _, p := range w.places {
		w.stop(p)
	}
	if !w.until(time.Minute, func() bool { return w.ended() }) {
		w.fail("the fleet does not stop: %s", w.alive())
	}
	if w.wrong == nil {
		w.book.close()
	}
}

// allNoticed reports whether every process has had time to see that Redis has fallen back.
func (w *world) allNoticed() bool {
	return w.fell.IsZero() || time.Since(w.fell) > noticed && !slices.ContainsFunc(w.all, func(p *process) bool {
		return !p.dead && time.Since(p.faulted) <= noticed
	})
}

// quiescent reports whether all that the plan has is over and every job is done.
func (w *world) quiescent() bool {
	w.mu.Lock()
	pushing := w.pushing > 0
	w.mu.Unlock()
	return !pushing && !w.clientSends() && w.unanswered() == "" && len(w.alarms) == 0 && w.allNoticed() && w.book.finished() && !w.book.batchesWait() && w.book.orphans() == 0
}

// clientSends reports whether a command of the client is on its way.
func (w *world) clientSends() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.conns, func(c *conn) bool { return c.owner == w.client && len(c.cmds) > 0 })
}
