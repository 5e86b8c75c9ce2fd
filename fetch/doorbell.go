package fetch

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

const (
	// lookTime is the longest that the listener and its deputy go without a look
	// at their queues, whoever was to wake them; lineTime the longest of those
	// behind them, in a long line. See patience. It is below the time after which
	// routers forget a connection on which nothing passes.
	lookTime = 5 * time.Second
	lineTime = 3 * time.Minute

	// nudgeTime is how long a bell may ring before the one who is to hear it
	// counts as busy, and the baton goes to another.
	nudgeTime = 250 * time.Millisecond

	// standIn is how long the deputy gives the listener to take what was pushed.
	standIn = 100 * time.Millisecond

	// farewell is how long a look may go on after its caller was called away: cut at
	// once, it could leave a baton behind that nobody knows of.
	farewell = 100 * time.Millisecond

	// freshTime is how long a connection is trusted that was not used.
	freshTime = 10 * time.Second

	// After vainRings in a row that came to nothing there is a pause between looks.
	vainRings = 8
	vainPause = 20 * time.Millisecond

	// refusedTime is the pause after a server has refused the doorbell, brokenTime
	// after one whose connections did not last that long.
	refusedTime = 10 * time.Minute
	brokenTime  = 2 * time.Second
)

// seat is where a fetcher believes that it is; the scripts know it.
type seat int

const (
	away     seat = iota // nowhere: busy, or not yet come to rest
	queued               // in the line: a message brings the baton
	deputy               // the same, and a push rings after standIn
	listener             // has the baton: a push rings
)

// doorbell wakes a fetcher when a push to one of its queues is its to take. Of
// all idle fetchers with the same queues one has the baton and is woken by Redis
// itself, within the push, by CLIENT TRACKING; see baton.lua. Coming to rest is
// part of the take that finds nothing, so that an idle fetcher costs one command
// each 5 s, in a long line one each 3 min, and a job one more only where the baton
// changes hands.
type doorbell struct {
	source *redis.Client
	opened func(redis.UniversalClient)
	name   string         // channel that this fetcher alone hears
	keys   []any          // baton, line: strings
	sit    []any          // arguments of sit but the last three, behind two free places
	watch  map[string]int // queue key -> place in the list of queues

	turn chan struct{} // held by the one call that may change the seat

	mu       sync.Mutex
	ears     *ears // nil until the first wait, and while broken
	seat     seat
	armed    bool      // as listener: no key has changed since they were read
	arming   bool      // a call on the hand is under way
	crossed  bool      // a key has changed since that call began: it may have armed nothing
	handed   seat      // given to us since the last take began
	stray    bool      // a seat went with its ears: the scripts may still know of it
	unheeded bool      // a ring was followed by no look
	late     bool      // the last wait ended for no reason
	renewed  time.Time // the baton; not later than it was
	waiting  int
	vain     int           // rings in a row that came to nothing
	looked   time.Time     // the last take
	next     time.Time     // of the looks that nothing asks for
	paused   []int         // queues that the last look found paused
	rung     chan struct{} // closed by a ring that no take has followed
	nudge    *time.Timer   // set by a ring, stopped by a take
	stand    *time.Timer   // set by a push to the deputy
	without  time.Time     // until then there is no bell
	closed   bool
	ended    chan struct{} // closed when close is through

	unfinished sync.WaitGroup
}

func newDoorbell(source *redis.Client, fetcher string, names []string) *doorbell {
	set := keys.SetOf(names)
	d := &doorbell{
		source: source, opened: func(redis.UniversalClient) {}, name: keys.Wake(fetcher), keys: []any{keys.Baton(set), keys.Line(set)},
		watch: make(map[string]int, len(names)),
		turn:  make(chan struct{}, 1), rung: make(chan struct{}), ended: make(chan struct{}),
	}
	d.sit = append(d.sit, nil, nil, 3+len(names), keys.Baton(set), keys.Line(set), keys.Paused)
	for i, name := range names {
		d.sit = append(d.sit, keys.Queue(name))
		d.watch[keys.Queue(name)] = i
	}
	d.nudge = time.AfterFunc(time.Hour, d.unheard)
	d.nudge.Stop()
	d.stand = time.AfterFunc(time.Hour, d.standIn)
	d.stand.Stop()
	return d
}

// wait blocks until the bell rings or d has passed. It returns errNoEars where
// there can be no bell.
func (d *doorbell) wait(ctx context.Context, dur time.Duration) error {
	err := ctx.Err()
	if err == nil && dur > 0 {
		d.mu.Lock()
		d.waiting++
		d.mu.Unlock()
		err = d.listen(ctx, dur)
		d.mu.Lock()
		d.waiting--
		d.mu.Unlock()
	}
	if ctx.Err() != nil { // called away; it may be that nobody takes any more
		d.background(func() { d.leave(false) })
	}
	return err
}

// listen is wait for a caller who is counted.
func (d *doorbell) listen(ctx context.Context, dur time.Duration) error {
	d.mu.Lock()
	over := isClosed(d.rung)
	d.mu.Unlock()
	if over {
		sleep(ctx, d.breather())
	}
	for deadline, again := time.Now().Add(dur), false; ; {
		rung, err := d.rest(ctx, again)
		if rung == nil || err != nil {
			return err
		}
		timer := time.NewTimer(min(time.Until(deadline), d.pause()))
		select {
		case <-rung:
			timer.Stop()
			sleep(ctx, d.breather())
			return d.answer(rung)
		case <-timer.C:
			over := !time.Now().Before(deadline)
			d.mu.Lock()
			again = over || d.overdue()
			d.late = d.late || again
			d.mu.Unlock()
			if over {
				return nil
			}
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// sleep pauses for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// rest makes sure that a push will ring, and returns the channel that is closed
// then; nil if there is work already, or may be. look asks for a look in any case.
func (d *doorbell) rest(ctx context.Context, look bool) (<-chan struct{}, error) {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-d.turn }()
	e, opened, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	rung := d.rung
	over := isClosed(rung)
	resting := d.seat == queued || d.seat == deputy || d.seat == listener && d.armed
	d.mu.Unlock()
	switch {
	case over:
		return nil, d.answer(rung)
	case resting && !look:
		return rung, nil
	}
	ready, err := d.look(ctx, e, "")
	// The ear may have broken meanwhile, by a flush of the database, say.
	own := errors.Is(err, net.ErrClosed) || errors.Is(err, redis.ErrClosed)
	if err != nil && (!opened || own) && ctx.Err() == nil { // gone while it rested, or a replica by now
		if e, _, err = d.open(ctx); err == nil {
			ready, err = d.look(ctx, e, "") // rung is closed: the caller comes again
		}
	}
	if err != nil || ready {
		return nil, err
	}
	return rung, nil
}

// look comes to rest, or leaves, by a call of its own on the hand.
func (d *doorbell) look(ctx context.Context, e *ears, leave string) (ready bool, err error) {
	d.mu.Lock()
	d.arming, d.crossed, d.handed, d.unheeded = true, false, away, false
	d.nudge.Stop()
	args := append(slices.Clone(d.sit), d.name, d.flags(e, false), leave)
	d.mu.Unlock()
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(farewell): // go-redis does not look at ctx while it reads
			e.wires.cut()
		}
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), earTimeout)
	reply, err := sitScript.run(ctx, e.hand, args)
	cancel()
	close(done)
	stop()
	e.used = time.Now()
	var seat string
	if err == nil {
		var paused []int
		readReply(reply, nil, nil, func(q int, text string) {
			if q < 0 {
				seat = text
			} else {
				paused = append(paused, q)
			}
		})
		d.passOver(paused)
	}
	d.settle(e, seat, err, true)
	return seat == "ready", err
}

// pause is how long to sleep until it is to be seen whether a look is due; an
// echo that was asked for comes within that time.
func (d *doorbell) pause() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ears == nil || !d.ears.asked.IsZero() {
		return lookTime
	}
	return time.Until(d.next)
}

// passOver tells which queues are paused: a push to one of them is not to ring.
func (d *doorbell) passOver(queues []int) {
	d.mu.Lock()
	d.paused = queues
	d.mu.Unlock()
}

// answer consumes a ring; the next rest has to look.
func (d *doorbell) answer(rung <-chan struct{}) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	if d.rung == rung {
		d.rung, d.armed = make(chan struct{}), false
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// open returns the ears, new ones if need be. The caller has the turn.
func (d *doorbell) open(ctx context.Context) (e *ears, opened bool, err error) {
	d.mu.Lock()
	e = d.ears
	if e != nil && d.deaf(e) {
		e = nil
	}
	closed, refused := d.closed, time.Now().Before(d.without)
	d.mu.Unlock()
	switch {
	case closed:
		return nil, false, errClosed
	case refused:
		return nil, false, errNoEars
	case e != nil:
		return e, false, nil
	}
	e, err = openEars(ctx, d.source, d.opened, d.name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if errors.Is(err, errNoEars) {
			d.without = time.Now().Add(refusedTime)
		}
		return nil, false, err
	}
	d.ears, d.seat, d.armed = e, away, false
	d.unfinished.Go(func() {
		e.listen(func(m *redis.Message) { d.hear(e, m) })
		d.mu.Lock()
		d.drop(e)
		d.mu.Unlock()
	})
	return e, true, nil
}
