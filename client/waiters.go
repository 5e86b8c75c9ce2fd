package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

const (
	// waitIdle is how long the connection of the waiters stays when nobody waits any more, for who waits for one job after
	// the other.
	waitIdle = 250 * time.Millisecond
	// waitPing is how long it may be silent until it is asked, and then until it counts as broken.
	waitPing = 3 * time.Second
	// waitAgain is the pause after a fault.
	waitAgain = 100 * time.Millisecond
	// waitReads is how many results are read at once.
	waitReads = 500
)

// waiters are the calls of Await of a client. While there are some, two goroutines live: run, which tells Redis what is waited
// for and reads results, and one that receives. Each subscription that Redis confirms, the first and each after a lost
// connection, is followed by a read, so that no end is missed.
type waiters struct {
	rdb redis.UniversalClient

	mu      sync.Mutex
	jobs    map[string]*waited // by jid
	changed map[string]bool    // jids of which the first has come, or the last has left
	read    []string           // jids that are to be read
	running bool
	closed  bool
	kick    chan struct{} // capacity 1: something has changed
}

// waited is a job that is waited for.
type waited struct {
	calls int           // guarded by waiters.mu
	done  chan struct{} // closed once what follows is set
	text  []byte
	err   error
}

func newWaiters(rdb redis.UniversalClient) *waiters {
	return &waiters{rdb: rdb, jobs: map[string]*waited{}, changed: map[string]bool{}, kick: make(chan struct{}, 1)}
}

// join adds a call that waits for a job.
func (w *waiters) join(jid string) *waited {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		end := &waited{done: make(chan struct{}), err: ErrClosed}
		close(end.done)
		return end
	}
	j := w.jobs[jid]
	if j == nil {
		j = &waited{done: make(chan struct{})}
		w.jobs[jid] = j
		w.changedLocked(jid)
	}
	j.calls++
	if !w.running {
		w.running = true
		go w.run()
	}
	return j
}

// leave ends a call.
func (w *waiters) leave(jid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[jid]; j != nil {
		if j.calls--; j.calls == 0 {
			delete(w.jobs, jid)
			w.changedLocked(jid)
		}
	}
}

func (w *waiters) changedLocked(jid string) {
	w.changed[jid] = true
	w.kickLocked()
}

func (w *waiters) kickLocked() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// close ends all calls.
func (w *waiters) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.failLocked(ErrClosed)
	w.kickLocked()
}

// endLocked ends the calls for a job, which stay in jobs until they have left.
func (j *waited) endLocked(text []byte, err error) {
	select {
	case <-j.done:
	default:
		j.text, j.err = text, err
		close(j.done)
	}
}

func (w *waiters) failLocked(err error) {
	for _, j := range w.jobs {
		j.endLocked(nil, err)
	}
}

// fault notes an error of Redis. One that waiting does not mend ends all calls.
func (w *waiters) fault(err error) {
	if f := redisconn.Classify(err); f == redisconn.Command || f == redisconn.Auth {
		w.mu.Lock()
		w.failLocked(err)
		w.mu.Unlock()
	}
}

// run keeps a subscription for as long as somebody waits.
func (w *waiters) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for again := true; again; {
		again = w.serve(ctx)
	}
}

// serve keeps one subscription. It tells whether another one is wanted, since this one is broken.
func (w *waiters) serve(ctx context.Context) (again bool) {
	ctx, cancel := context.WithCancel(ctx)
	sub := w.rdb.Subscribe(ctx)
	var seen atomic.Int64
	seen.Store(time.Now().UnixNano())
	var receiving sync.WaitGroup
	receives := false
	defer func() {
		cancel()
		_ = sub.Close()
		receiving.Wait()
	}()
	subscribed := map[string]bool{}
	w.mu.Lock()
	for jid := range w.jobs {
		w.changed[jid] = true
	}
	w.mu.Unlock()
	wait := time.NewTimer(0)
	defer wait.Stop()
	for idle := false; ; {
		select {
		case <-w.kick:
		case <-wait.C:
		}
		w.mu.Lock()
		if len(w.jobs) == 0 && (idle || w.closed) {
			w.running, w.read = false, nil
			clear(w.changed)
			w.mu.Unlock()
			return false
		}
		idle = false
		var add, remove []string
		for jid := range w.changed {
			switch wanted := w.jobs[jid] != nil; {
			case wanted && !subscribed[jid]:
				add = append(add, keys.Result(jid))
				subscribed[jid] = true
			case wanted: // it has left and come back: what came between was not for it
				w.read = append(w.read, jid)
			case subscribed[jid]:
				remove = append(remove, keys.Result(jid))
				delete(subscribed, jid)
			}
		}
		clear(w.changed)
		read := w.read
		w.read = nil
		pause := waitPing
		if len(w.jobs) == 0 {
			pause, idle = waitIdle, true
		}
		w.mu.Unlock()
		if len(remove) > 0 {
			_ = sub.Unsubscribe(ctx, remove...) // of an error the receiver hears, too
		}
		if len(add) > 0 {
			_ = sub.Subscribe(ctx, add...)
			if !receives {
				receives = true
				receiving.Go(func() { w.receive(ctx, sub, &seen) })
			}
		}
		if !w.readAll(ctx, read) {
			pause = waitAgain
		}
		switch silent := time.Since(time.Unix(0, seen.Load())); {
		case idle:
		case silent > 2*waitPing:
			return true
		case silent > waitPing:
			_ = sub.Ping(ctx)
		}
		wait.Reset(pause)
	}
}

// receive receives until ctx ends, which closes sub, or until an error: then sub counts as broken. A connection on which Redis has refused
// the subscription stays open, and says nothing.
func (w *waiters) receive(ctx context.Context, sub *redis.PubSub, seen *atomic.Int64) {
	for ctx.Err() == nil {
		got, err := sub.Receive(ctx)
		if err != nil {
			if errors.Is(err, redis.ErrClosed) {
				return
			}
			w.fault(err)
			select {
			case <-time.After(waitAgain):
			case <-ctx.Done():
			}
			seen.Store(0)
			w.mu.Lock()
			w.kickLocked()
			w.mu.Unlock()
			return
		}
		seen.Store(time.Now().UnixNano())
		switch got := got.(type) {
		case *redis.Subscription:
			if got.Kind == "subscribe" {
				w.toRead(strings.TrimPrefix(got.Channel, keys.ResultPrefix))
			}
		case *redis.Message:
			w.told(strings.TrimPrefix(got.Channel, keys.ResultPrefix), []byte(got.Payload))
		}
	}
}

// toRead schedules a read of the results of jobs.
func (w *waiters) toRead(jids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = append(w.read, jids...)
	w.kickLocked()
}

// told ends the calls for a job.
func (w *waiters) told(jid string, text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[jid]; j != nil {
		j.endLocked(text, nil)
	}
}

// readAll reads the results of jobs; false if some are to be read again.
func (w *waiters) readAll(ctx context.Context, jids []string) bool {
	for some := range slices.Chunk(jids, waitReads) {
		cmds := make([]*redis.StringCmd, len(some))
		_, _ = w.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // the errors are in the commands
			for i, jid := range some {
				cmds[i] = p.Get(ctx, keys.Result(jid))
			}
			return nil
		})
		for i, cmd := range cmds {
			switch text, err := cmd.Bytes(); {
			case err == nil:
				w.told(some[i], text)
			case errors.Is(err, redis.Nil):
			case redisconn.Classify(err) == redisconn.Command:
				w.mu.Lock()
				if j := w.jobs[some[i]]; j != nil {
					j.endLocked(nil, err)
				}
				w.mu.Unlock()
			default:
				w.fault(err)
				w.mu.Lock()
				w.read = append(w.read, jids...) // what is read twice does no harm
				w.mu.Unlock()
				return false
			}
		}
	}
	return true
}
