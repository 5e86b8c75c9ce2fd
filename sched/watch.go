package sched

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

const (
	seatLease   = 15 * time.Second // for a holder that is gone without a closed connection
	seatRenewal = seatLease / 3

	// A process without a seat asks for one this often, or less often in a large
	// fleet: some three questions a second in all are enough, as there are two
	// seats. The limit is for a fleet that has become small and has nobody who
	// rides; see Ride.
	seatPause    = 3 * time.Second
	seatPauseAdd = 400 * time.Millisecond // per process of the fleet
	seatPauseMax = 3 * time.Minute

	standbySeat = 2 // 1 is the leader's

	lookPause    = 50 * time.Millisecond // at most 20 looks a second
	standbyDelay = 25 * time.Millisecond
	leaveTimeout = 300 * time.Millisecond
	cutAfter     = 600 * time.Millisecond // then connections are closed under calls that hang
)

// EventKind tells what an Event is.
type EventKind int

// What happens to a watching process.
const (
	// Elected: this process watches from now on, or is the leader now instead of
	// the standby. A Ring follows.
	Elected EventKind = iota
	// Lost: it does no longer. From now on only the interval counts.
	Lost
	// Ring: the sets were looked at, because something was added or removed, or
	// since a seat was renewed.
	Ring
)

func (k EventKind) String() string { return [...]string{"elected", "lost", "ring"}[k] }

// Event is what Watch tells. While a process watches, it sleeps until the
// earliest of its interval, the Next of the last Ring and the Next of its last
// promotions; when it does not, only the interval counts.
type Event struct {
	Kind EventKind

	// Standby, with Elected: another process leads, this one is to be 25 ms
	// behind it. The times given by the Scheduler have that added.
	Standby bool

	// Tracking, with Elected: Redis itself tells of every change. Else only
	// pushes of package client into schedule do.
	Tracking bool

	// Next, with Ring: when the first entry of the two sets is due, past if it
	// is; zero if both are empty.
	Next time.Time

	// Processes, with Ring: of the fleet, Ruby's included; 0: not counted.
	Processes int
}

//go:embed seat.lua
var seatSource string

var seatScript = script.New("seat", seatSource)

// Watch waits for one of the fleet's two seats, then watches the two sets for
// changes by anybody, until ctx ends (nil, within a second) or Redis fails (an
// error; call it again after a while). notify is called for each event, never
// concurrently and at most some 20 times a second; it must not block. No
// goroutine of Watch outlives it.
//
// identity is that of the process. Only one Watch of an identity and of a
// Scheduler may run at a time.
//
// It costs a watcher one command each 5 s while nothing changes, which looks at the
// sets as well, any other process one each 3 s or more. On a cluster there is one seat, whose holder
// looks at the sets once a second.
func (s *Scheduler) Watch(ctx context.Context, identity string, notify func(Event)) error {
	if cluster, ok := s.cfg.Redis.(*redis.ClusterClient); ok {
		return s.watchOnCluster(ctx, cluster, identity, notify)
	}
	rdb, ok := s.cfg.Redis.(*redis.Client)
	if !ok {
		return fmt.Errorf("watch schedule and retry: got a %T, want a *redis.Client or a *redis.ClusterClient", s.cfg.Redis)
	}
	w := &watcher{s: s, id: identity, notify: notify}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	w.open(life, rdb)
	var cutter sync.WaitGroup
	cutter.Go(func() { // a Redis that hangs must not hold up the stop
		select {
		case <-ctx.Done():
			if sleep(life, cutAfter) {
				end()
				w.cut()
			}
		case <-life.Done():
		}
	})
	err := w.run(ctx)
	end()
	cutter.Wait()
	w.cut()
	_ = w.rdb.Close()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("watch schedule and retry: %w", err)
}

// run waits for a seat and takes it, again and again.
func (w *watcher) run(ctx context.Context) error {
	for {
		seat, o, err := w.seat(ctx, w.rdb, "look")
		if err != nil {
			return err
		}
		if seat != 0 {
			if err := w.reign(ctx); err != nil {
				return err
			}
		}
		pause := min(max(seatPause, time.Duration(o.Processes)*seatPauseAdd), seatPauseMax)
		if !w.s.standBy(ctx, pause*3/4+time.Duration(jitter.Rand(w.id, "seat").Int64N(int64(pause/2)))) {
			return ctx.Err()
		}
	}
}

// reign watches from a seat. It returns nil when the seat was lost.
func (w *watcher) reign(ctx context.Context) error {
	ear, err := listen(ctx, w.rdb, &w.bells, keys.Seat(w.id))
	if err != nil {
		return err
	}
	defer ear.close()
	earID := w.lastID.Load()
	hand := w.rdb.EphemeralConn() // tracking is a state of the connection
	defer func() { _ = hand.Close() }()
	seat, _, err := w.seat(ctx, hand, "take")
	if err != nil || seat <= 0 {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		_, _, _ = w.seat(ctx, hand, "leave") // else the closed connection tells
	}()
	tracking := earID != 0 && hand.Do(ctx, "client", "tracking", "on", "redirect", earID, "noloop").Err() == nil
	if !tracking {
		if err := ear.ps.Subscribe(ctx, keys.Bell); err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	defer w.s.standby.Store(false)
	defer w.notify(Event{Kind: Lost})
	elected := func(seat int) {
		w.s.standby.Store(seat == standbySeat)
		w.notify(Event{Kind: Elected, Standby: seat == standbySeat, Tracking: tracking})
		ear.ring() // the times told before, if any, were those of the other seat
	}
	elected(seat)
	return w.watch(ctx, hand, ear, seat, elected)
}

// watch looks whenever the ear rings and renews the seat.
func (w *watcher) watch(ctx context.Context, hand *redis.Conn, ear *ear, seat int, elected func(int)) error {
	renew := time.NewTicker(seatRenewal)
	defer renew.Stop()
	for ctx.Err() == nil { // first, whatever else there is: a stop does not look once more
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ear.failed:
			return err
		case <-renew.C:
			if ear.asked.Swap(true) {
				return errDeaf
			}
			now, o, err := w.seat(ctx, hand, "take", keys.Retry, keys.Schedule)
			if err != nil {
				return err
			}
			if now <= 0 {
				return nil
			}
			if !o.echo {
				ear.asked.Store(false)
			}
			if now != seat {
				seat = now
				elected(seat)
			}
			w.notify(Event{Kind: Ring, Next: w.s.behind(o.Outlook).Next(), Processes: o.Processes})
		case <-ear.rung:
			// Reading arms the tracking again, in the same step.
			call, cancel := context.WithTimeout(ctx, callTimeout)
			o, err := look(call, hand, keys.Retry, keys.Schedule)
			cancel()
			if err != nil {
				return err
			}
			w.notify(Event{Kind: Ring, Next: w.s.behind(o).Next()})
			sleep(ctx, lookPause)
		}
	}
	return ctx.Err()
}

// seen is what a question about the seats brings along.
type seen struct {
	Outlook      // its times with sets only
	echo    bool // likewise: the ear will hear one
}

// seat asks for, takes or leaves a seat; to renew it, it looks at the sets.
func (w *watcher) seat(ctx context.Context, rdb redis.Scripter, verb string, sets ...string) (seat int, o seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	names := append([]string{keys.Poller, keys.Standby, keys.Processes}, sets...)
	reply, err := seatScript.Run(ctx, rdb, names, w.id, seatLease.Milliseconds(), keys.Seat(""), verb).Slice()
	if err == nil && len(reply) != 2 && len(reply) != 5 {
		err = errors.New("unexpected reply")
	}
	if err != nil {
		return 0, o, fmt.Errorf("seat: %w", err)
	}
	n, _ := reply[0].(int64)
	processes, _ := reply[1].(int64)
	o.Processes = int(processes)
	if len(reply) == 5 {
		o.echo = reply[2] == int64(1)
		o.Retry, o.Schedule = scoreTime(reply[3]), scoreTime(reply[4])
	}
	return int(n), o, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
