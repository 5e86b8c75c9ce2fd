package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/testkit/chaos"
)

// daemon is one process of the system, alive or not.
type daemon struct {
	id      int
	slot    int // its number; a successor has the same
	p       *chaos.Process
	file    string
	started time.Time
	paused  bool
	stopped bool // by TERM
}

// span is a time in which a fault may have made jobs of some daemons run again.
type span struct {
	what     string
	hits     func(d *daemon) bool
	from, to time.Time
	fenced   map[*daemon]bool         // who was taken for dead for it; nil: nobody tells
	reach    map[*daemon][2]time.Time // that was worked out; see storm.reach
	forgot   *memory                  // what Redis did in this time is forgotten; nil for what forgets nothing
}

// storm is one run.
type storm struct {
	t      testing.TB
	cfg    Config
	system System
	r      *rand.Rand
	dir    string
	rdb    *redis.Client // of the server that is the master

	parents map[int]map[int64]bool // of children: the runs that have pushed one
	held    int                    // times that a job was held
	asked   map[int][]*run         // these times: a process had the job in hand, and did not run it

	ways   []*chaos.Proxy // of the slots, and the last of the pushers
	rules  []*chaos.Fault
	cuts   []*chaos.Fault // those of them that lose something
	addrs  []string
	slots  []*daemon
	all    []*daemon
	spans  []*span
	counts map[string]int
	later  []delayed
	deck   []string
	met    bool         // a kill has met a job that ran
	frozen map[int]bool // slots
	redis  servers

	number   atomic.Int64
	claimed  atomic.Int64
	unknown  atomic.Int64
	refused  atomic.Int64
	mu       sync.Mutex
	accepted map[int]time.Time
	memory   []*memory // what Redis had after each time that it may have forgotten
}

// delayed is the end of a fault.
type delayed struct {
	at time.Time
	do func()
}

// Run puts a system to the test and returns what has happened.
func Run(t testing.TB, cfg Config, system System) *Report {
	t.Helper()
	s := &storm{
		t: t, cfg: cfg, system: system, r: rand.New(rand.NewPCG(cfg.Seed, 0)), dir: t.TempDir(),
		counts: map[string]int{}, frozen: map[int]bool{}, accepted: map[int]time.Time{},
		parents: map[int]map[int64]bool{},
	}
	s.serve()
	for slot := range cfg.Daemons + 1 {
		way := chaos.NewProxy(t, s.redis.options())
		if s.faulty(slot) {
			for i, fault := range []struct {
				p  float64
				do chaos.Effect
			}{
				{0.001, chaos.Effect{Cut: true}},
				{0.001, chaos.Effect{Cut: true, Applied: true}},
				{0.01, chaos.Effect{Delay: 50 * time.Millisecond}}, // a network, not a loopback
				{0.5, chaos.Effect{Delay: time.Millisecond}},
			} {
				r := rand.New(rand.NewPCG(cfg.Seed, uint64(100*slot+i+1)))
				rule := way.Add(chaos.Fault{Where: func([]string) bool { return r.Float64() < fault.p }, Do: fault.do})
				if s.rules = append(s.rules, rule); i < 2 {
					s.cuts = append(s.cuts, rule)
				}
			}
		}
		s.ways, s.addrs = append(s.ways, way), append(s.addrs, way.Listen())
	}
	for slot := range cfg.Daemons {
		s.slots = append(s.slots, nil)
		s.start(slot)
	}
	began := time.Now()
	var pushers sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pushing := redis.NewClient(&redis.Options{Addr: s.addrs[cfg.Daemons], MaxRetries: -1})
	defer func() { _ = pushing.Close() }()
	push := system.Push(pushing)
	for range 4 {
		pushers.Go(func() { s.push(ctx, push, began) })
	}
	for next := began.Add(time.Second); !s.enough(time.Since(began)); time.Sleep(5 * time.Millisecond) { // the pace of the faults
		s.due(time.Now())
		s.revive()
		if time.Now().After(next) {
			s.fault()
			next = time.Now().Add(s.between(500*time.Millisecond, 2*time.Second))
		}
	}
	for len(s.later) > 0 {
		s.due(time.Now())
		time.Sleep(5 * time.Millisecond)
	}
	for _, rule := range s.rules {
		rule.Remove()
	}
	since := time.Now()
	pushers.Wait()
	left := s.settle(since)
	took := time.Since(since)
	locks, asked := s.awaitLocks()
	slots, kept := s.awaitSlots()
	for _, d := range s.slots {
		d.p.Signal(syscall.SIGTERM)
		d.stopped = true
	}
	for _, d := range s.all {
		if code := d.p.Exit(30 * time.Second); d.stopped && code != 0 && d.worked() {
			s.counts["bad exit"]++
		}
	}
	rep := s.report(left, took)
	rep.Locks, rep.Asked = locks, asked
	rep.Limits.Slots, rep.Limits.Left = slots, kept
	return rep
}

// enough reports whether faults have happened for long enough: for Duration, and on a slow machine for up to three times
// that until each kind has happened and a kill has met a job that ran.
func (s *storm) enough(took time.Duration) bool {
	if took < s.cfg.Duration || took > 3*s.cfg.Duration {
		return took >= s.cfg.Duration
	}
	for what := range deck {
		if s.counts[what] == 0 {
			return false
		}
	}
	return s.met
}

// faulty reports whether the way of a slot delays and cuts: that of every other daemon, and of the pushers.
func (s *storm) faulty(slot int) bool { return slot%2 == 1 || slot == s.cfg.Daemons }

// start starts a daemon in a slot.
func (s *storm) start(slot int) {
	s.t.Helper()
	d := &daemon{id: len(s.all), slot: slot, started: time.Now()}
	d.file = filepath.Join(s.dir, fmt.Sprint(d.id))
	text, err := json.Marshal(Worker{System: s.system.Name, Redis: s.addrs[slot], File: d.file, Rate: s.cfg.rate()})
	if err != nil {
		s.t.Fatal(err)
	}
	d.p = chaos.Launch(s.t, fmt.Sprintf("%s %d", s.system.Name, d.id),
		exec.CommandContext(context.Background(), os.Args[0]), workerEnv+"="+string(text))
	s.slots[slot] = d
	s.all = append(s.all, d)
}

// worked reports whether the daemon has begun a job: before that it may not have
// come to where it handles TERM.
func (d *daemon) worked() bool {
	info, err := os.Stat(d.file)
	return err == nil && info.Size() > 0
}

// cutOff reports whether the daemon, which was killed, had a job that ran.
func (d *daemon) cutOff() bool {
	text, _ := os.ReadFile(d.file) // none: it had begun no job
	begun, ended := 0, 0
	for line := range bytes.Lines(text) {
		switch line[0] {
		case 's':
			begun++
		case 'd', 'f', 'i':
			ended++
		}
	}
	return begun > ended
}

// fault lets one thing go wrong: the next of a shuffled deck that can happen now.
func (s *storm) fault() {
	s.t.Helper()
	if len(s.deck) == 0 {
		kinds, rest := slices.Sorted(maps.Keys(deck)), []string(nil)
		for _, what := range kinds {
			rest = append(rest, slices.Repeat([]string{what}, deck[what]-1)...)
		}
		for _, cards := range [][]string{kinds, rest} {
			s.r.Shuffle(len(cards), func(i, j int) { cards[i], cards[j] = cards[j], cards[i] })
			s.deck = append(s.deck, cards...) // first one of each: a short run must not miss a kind
		}
	}
	for i, what := range s.deck {
		for _, slot := range s.r.Perm(s.cfg.Daemons) {
			if s.strike(what, slot) {
				s.counts[what]++
				s.deck = slices.Delete(s.deck, i, i+1)
				return
			}
		}
	}
}

// strike makes a fault happen, to a daemon if it is one of a daemon, and tells
// whether it could.
func (s *storm) strike(what string, slot int) bool {
	s.t.Helper()
	d, way := s.slots[slot], s.ways[slot]
	sp := &span{what: what, hits: func(other *daemon) bool { return other == d }, from: time.Now(), to: time.Now()}
	long := s.between(Lease+time.Second, 2*Lease+time.Second)
	switch what {
	case "kill":
		d.p.Dull = true
		d.p.Kill()
		s.met = s.met || d.cutOff()
		s.start(slot)
	case "pause":
		if d.paused || !d.p.Running() {
			return false
		}
		d.p.Pause()
		d.paused = true
		s.after(long, func() {
			d.p.Resume() // it may have been killed
			sp.to, d.paused = time.Now(), false
		})
	case "stop":
		if d.paused || !d.worked() {
			return false // it would not hear it, or die of it
		}
		d.p.Signal(syscall.SIGTERM)
		d.stopped = true
		s.start(slot)
	case "redis kill":
		if s.redis.busy {
			return false
		}
		s.killRedis(sp)
	case "failover":
		if s.redis.busy || !s.inSync() {
			return false
		}
		s.failOver(sp)
	case "cut":
		if !s.faulty(slot) {
			return false
		}
		way.Cut()
		s.ways[s.cfg.Daemons].Cut() // of the pushers
		return true                 // no job may run again for that
	case "freeze":
		if !s.faulty(slot) || s.frozen[slot] {
			return false
		}
		sp.hits = func(other *daemon) bool { return other.slot == slot }
		way.Pause()
		s.frozen[slot] = true
		s.after(long, func() {
			way.Resume()
			sp.to, s.frozen[slot] = time.Now(), false
		})
	}
	s.spans = append(s.spans, sp)
	return true
}

// revive is the process manager: it starts what has ended by itself again.
func (s *storm) revive() {
	s.t.Helper()
	for slot, d := range s.slots {
		if !d.p.Running() && time.Since(d.p.Ended()) > 200*time.Millisecond {
			if d.worked() {
				s.counts["ended"]++
			} else {
				s.counts["not started"]++ // without Redis it says so and ends
			}
			s.start(slot)
		}
	}
}
