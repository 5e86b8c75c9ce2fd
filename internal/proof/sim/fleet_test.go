package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
)

// process is one daemon.
type process struct {
	*owner
	w      *world
	daemon *actors.Daemon
	rdb    redis.UniversalClient
	gone   chan struct{} // closed when it dies
	ended  chan struct{} // closed when nothing of it is left
	ask    chan struct{} // closed when it is to stop
	asked  bool
	report actors.DrainReport
	failed error           // of its start
	fences int             // how often a rescuer has ended one of its fetchers
	fenced map[string]bool // these
	over   bool            // the world has seen that it has ended
}

// pid is the number of the process that is being made: none that the machine
// could have.
var pid atomic.Int64

const noPID = 1 << 30

func nextPID() int { return int(pid.Load()) }

var errFails = errors.New("fails by the plan")

// options are those of a client of owner o.
func (w *world) redisOptions(o *owner) *redis.Options {
	return &redis.Options{
		Addr: "127.0.0.1:0", Dialer: w.dial(o), DialerRetries: 1,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 10,
		MinRetryBackoff: 1, MaxRetryBackoff: 1, // else it is random; 0 would be the default again
	}
}

// start starts the next process of a place.
func (w *world) start(pl *place) {
	if pl.now != nil && !pl.now.isOver() {
		return // two faults have ended the one before, and one of them was faster
	}
	pl.n++
	p := &process{
		owner: &owner{name: fmt.Sprintf("p%d.%d", pl.index+1, pl.n), place: pl, steps: &pl.steps},
		w:     w, gone: make(chan struct{}), ended: make(chan struct{}), ask: make(chan struct{}),
	}
	pl.now = p
	p.faulted = w.refusing
	w.all = append(w.all, p)
	cryptotest.SetGlobalRandom(w.t, w.plan.Order^uint64(len(w.all))) // its identity
	p.rdb = w.newClient(p.owner)
	cfg := actors.Config{
		Redis: p.rdb, Registry: p.registry(), Logger: zerolog.New(errorLog{p}).Level(zerolog.ErrorLevel), Lease: lease, Timeout: timeout, Grace: grace,
		HeartbeatInterval: 20 * time.Second, Metrics: "off",
		Poison: actors.Poison{Recoveries: -1}, // else three faults would be enough to send a job to the dead set
	}
	if len(w.plan.Limits) > 0 {
		cfg.HeartbeatInterval = limitsBeat
		cfg.QueueLimits = map[string][]troupe.Limit{}
		for _, queue := range queues {
			if all := w.plan.limits(queue); len(all) > 0 {
				cfg.QueueLimits[queue] = all
			}
		}
	}
	if w.plan.poisoned() {
		cfg.Poison = actors.Poison{Recoveries: limit, Suspect: suspect}
	}
	for i, n := range w.plan.Fleet[pl.index].Capsules {
		c := actors.Capsule{Name: string(rune('k' + i)), Concurrency: n, Queues: fetch.Strict(queues)}
		if w.bug != nil && w.bug.fetcher != nil {
			c.Fetch = w.bug.fetcher
		}
		cfg.Capsules = append(cfg.Capsules, c)
	}
	pid.Store(noPID + int64(len(w.all)))
	d, err := actors.New(cfg)
	if err != nil {
		panic(err)
	}
	p.daemon = d
	w.mu.Lock()
	w.book.know(d.Identity(), p)
	w.mu.Unlock()
	w.say("%s starts", p.name)
	go func() {
		defer close(p.ended)
		defer func() { _ = p.rdb.Close() }()
		if p.failed = d.Start(context.Background()); p.failed != nil {
			w.note()
			return
		}
		select {
		case <-p.gone:
		case <-p.ask:
		case <-d.Done():
		}
		p.report, _ = d.Stop(context.Background())
		w.note()
	}()
}

// errorLog is where a process writes its errors. One that restarts an actor is a defect: no plan has a cause for it.
type errorLog struct{ p *process }

func (l errorLog) Write(line []byte) (int, error) {
	if !l.p.dead && bytes.Contains(line, []byte(`"directive":`)) {
		l.p.w.fail("an actor of %s has failed: %s", l.p.name, bytes.TrimSpace(line))
	}
	return len(line), nil
}

func (p *process) registry() *troupe.Registry {
	reg := new(troupe.Registry)
	opts := troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(2 * time.Second) }, Limits: p.w.plan.limits("")}
	troupe.Handle(reg, func(ctx context.Context, j *troupe.Job[work]) error { return p.handle(ctx, j.JID) }, opts)
	troupe.Handle(reg, func(ctx context.Context, j *troupe.Job[one]) error { return p.handle(ctx, j.JID) }, opts)
	p.iterable(reg, opts)
	p.collected(reg, opts)
	return reg
}

// work is the class of jobs that are neither unique nor iterable.
type work struct{}

func (work) Class() string { return "Job" }

// handle is the handler of jobs that are not iterable.
func (p *process) handle(ctx context.Context, jid string) error {
	w, name := p.w, "j"+strings.TrimLeft(jid, "0")
	j := w.book.job(name)
	var push *pushing
	var run *ruled
	defer func() { w.book.leavesLimits(run) }()
	if !w.wait(p.owner, p.gone, nil, "starts "+name, time.Time{}, func() {
		w.book.runs(p.owner, j)
		run = w.book.begins(p, j)
		push = w.book.pushes(p.owner, j, -1)
		p.swallow(j, KillsAtStart)
	}) {
		return errGone
	}
	if err := push.push(ctx, w); err != nil {
		return p.notKept(ctx, err)
	}
	p.rest(ctx, j)
	p.setResult(ctx, j, push)
	return p.end(ctx, j, j.plan.Lasts, push)
}

// stopOf is what ends a job early.
func (p *process) stopOf(ctx context.Context, j *state) <-chan struct{} {
	if j.plan.Unresponsive {
		return nil
	}
	return ctx.Done()
}

// end is the end of a run.
func (p *process) end(ctx context.Context, j *state, lasts time.Duration, push *pushing) error {
	w, err := p.w, error(nil)
	if !w.wait(p.owner, p.gone, p.stopOf(ctx, j), "ends "+j.name, time.Now().Add(lasts), func() {
		if !p.swallow(j, KillsAtEnd) {
			err = w.book.ends(p.owner, j)
			push.well = err == nil
		}
	}) {
		return context.Cause(ctx)
	}
	return err
}

// swallow ends the process if this is the time at which the job does that.
func (p *process) swallow(s *state, now Pill) bool {
	if s.plan.Kills != now {
		return false
	}
	w := p.w
	w.say("      %s dies of %s", p.name, s.name)
	w.seen["process killed by a job"]++
	w.kill(p)
	w.after(300*time.Millisecond, func() { w.start(p.place) })
	return true
}

// stop asks the process of a place to stop.
func (w *world) stop(pl *place) {
	if p := pl.now; p != nil && !p.dead && !p.asked {
		p.asked, p.stopping = true, true
		w.say("      %s is told to stop", p.name)
		close(p.ask)
		synctest.Wait()
	}
}

// isOver reports whether a process has ended, and looks at how, once.
func (p *process) isOver() bool {
	select {
	case <-p.ended:
	default:
		return p.dead
	}
	if !p.over && !p.dead {
		p.over = true
		p.w.book.left(p)
		p.w.kill(p) // what is left of it ends with the program
	}
	return true
}

// reap looks for processes that have ended without being told to.
func (w *world) reap() {
	for _, pl := range w.places {
		p := pl.now
		if p == nil || p.over || p.dead || !p.isOver() || p.asked {
			continue
		}
		if p.failed == nil {
			w.fail("%s has stopped by itself: %v", p.name, p.daemon.Err())
			continue
		}
		w.say("      %s could not start: %v", p.name, p.failed)
		w.after(500*time.Millisecond, func() { w.start(pl) })
	}
}

func (w *world) ended() bool { return w.alive() == "" }

func (w *world) alive() string {
	var names []string
	for _, pl := range w.places {
		if pl.now != nil && !pl.now.isOver() {
			names = append(names, pl.now.name)
		}
	}
	return strings.Join(names, " ")
}

// push is the client: one job after the other.
func (w *world) push() {
	w.client = &owner{name: "client", steps: new(steps)}
	rdb := w.newClient(w.client)
	c := client.New(rdb)
	w.waitForJobs()
	w.pushing = 1
	if len(w.plan.Batches) > 0 {
		w.pushing = 2
		w.pushBatches()
	}
	go func() {
		defer w.clientEnds()
		for i, j := range w.plan.Jobs {
			time.Sleep(j.After + time.Millisecond) // a world is in a bubble
			if w.client.gone(w) {
				break
			}
			s := w.book.job(fmt.Sprintf("j%x", i+1))
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			var err error
			if j.Links > 0 {
				_, err = c.PushChain(ctx, w.book.chainOf(s, s.options())...)
			} else {
				_, err = c.Push(ctx, s.args(), s.options()...) // the book sees what came into Redis
			}
			cancel()
			w.book.pushedAs(s, err)
		}
		_ = rdb.Close()
	}()
}

// clientEnds notes that a goroutine of the client has ended.
func (w *world) clientEnds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pushing--
	w.note()
}

// gone reports whether the world is being wound up.
func (o *owner) gone(w *world) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return o.dead
}

// windUp ends all that is left, and returns when no goroutine is.
func (w *world) windUp() {
	for _, p := range w.all {
		if !p.dead {
			w.kill(p)
		}
	}
	w.mu.Lock()
	w.client.dead = true
	w.unwait()
	for _, c := range w.conns {
		c.sever()
	}
	w.mu.Unlock()
	for _, c := range w.connsOf(w.client) {
		w.dispatch(c, []string{"UNSUBSCRIBE"}) // the server sees that it is closed
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, p := range w.all {
			<-p.ended
		}
		time.Sleep(10 * time.Second) // the client's call, and the timers of the actor library
	}()
	for over := false; !over; {
		w.settle()
		select {
		case <-w.arrived:
		case <-ended:
			over = true
		}
	}
	w.redis.Close()
}
