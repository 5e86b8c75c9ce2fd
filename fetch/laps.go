package fetch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// lapTime is how long a job stays in a lap before a take begins that could have
// it; then it goes back to its queue.
const lapTime = 5 * time.Millisecond

// laps get a fair share of what is pushed to idle processes beside Ruby's
// Sidekiq. Redis gives a pushed job to whoever has been blocked on its queue for
// the longest, so a fetcher that only listens gets none. Here it blocks as well, as
// so many sitters that wait like a thread of Sidekiq each: with one connection per
// queue, in a BLMOVE from the queue to its lap, so that the job never leaves Redis.
// The reply is the bell; the take that follows looks into the laps before the
// queues.
//
// A queue has one lap, of all processes together, and nobody owns what is in it:
// any take of a fetcher with laps has it, and anybody may put it back. So there is
// nothing to fence. A command of a process that was killed or is frozen may still
// be answered; the job is found by the next look of another, within 5 s, or by
// the next round of any rescuer.
//
// Each who hears that a job has come sees to it that one job leaves the lap: by a
// take, or by putting all of it back.
type laps struct {
	source *redis.Client
	opened func(redis.UniversalClient)
	names  []string
	share  int // number of sitters
	sick   *sickQueues
	pairs  []string // queue, lap; as unlap wants them

	mu      sync.Mutex
	wires   *wires
	rdb     *redis.Client
	sitters []*sitter
	wanted  int    // how many of them are to wait
	room    int    // how many units the last take would have taken besides
	waiting int    // calls of wait
	paused  []int  // queues that the last look found paused
	landed  uint64 // jobs that have come
	seen    uint64 // those of them that somebody has seen to
	taking  int    // takes under way
	bell    *bell
	late    *time.Timer   // rings when nobody has seen to them
	ending  bool          // a goroutine ends blocked commands
	more    chan struct{} // there are more of them
	mute    bool          // the server does not let us end them
	closed  bool
	done    chan struct{} // after close: nobody is blocked any more
	ended   chan struct{} // after close: every goroutine is gone

	unfinished sync.WaitGroup
}

func newLaps(source *redis.Client, names []string, share int, sick *sickQueues) *laps {
	l := &laps{
		source: source, opened: func(redis.UniversalClient) {}, names: names, share: share, sick: sick,
		bell: newBell(), more: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{}),
	}
	for _, name := range names {
		l.pairs = append(l.pairs, keys.Queue(name), keys.Lap(name))
	}
	l.late = time.AfterFunc(time.Hour, l.unheeded)
	l.late.Stop()
	return l
}

// wait blocks until a job has come to a lap, or d has passed.
func (l *laps) wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	b, err := l.begin()
	if b == nil || err != nil { // a job has come that no take has followed
		return err
	}
	defer l.end(ctx)
	return b.await(ctx, d)
}

func (l *laps) begin() (*bell, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errClosed
	case l.landed != l.seen:
		return nil, nil
	case l.sitters == nil:
		l.open()
	}
	l.waiting++
	l.want(max(1, l.room)) // who waits has use for a job
	return l.bell, nil
}

// end is called when a wait is over. If it was called away it may be that nobody
// takes any more.
func (l *laps) end(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
	if ctx.Err() != nil && l.waiting == 0 {
		l.want(0)
		if l.landed != l.seen {
			l.background(l.putBack)
		}
	}
}

// want sets how many sitters are to wait. l.mu is held.
func (l *laps) want(n int) {
	l.wanted = min(n, l.share)
	l.adjust()
}

// begins is called before a take that looks for work; mark is for ends.
func (l *laps) begins() (mark uint64) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taking++
	l.late.Stop()
	return l.landed
}

// ends is called after it: it has left room for so many units more, and got so
// many out of laps. What it has left there goes back.
func (l *laps) ends(mark uint64, room, got int, paused []int, err error) {
	if l != nil && l.count(mark, room, got, paused, err) {
		l.putBack()
	}
}

func (l *laps) count(mark uint64, room, got int, paused []int, err error) (left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taking--
	if err == nil {
		l.room, l.paused = room, paused
		switch {
		case room == 0:
			l.want(0) // what comes now could not be started
		case l.waiting > 0:
			l.want(room)
		default:
			l.adjust()
		}
		owed := int(mark) - int(l.seen) // negative: put back meanwhile
		if owed > got && (room == 0 || len(paused) > 0) {
			return true
		}
		l.seen = max(l.seen, mark)
	}
	if l.landed != l.seen && !l.closed {
		l.late.Reset(lapTime)
	}
	return false
}

// freed is called when so many units have ended otherwise than by an ack.
func (l *laps) freed(n int) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.room += n
	if l.waiting > 0 {
		l.want(l.room)
	}
}

// unheeded puts back what nobody has come for, since every slot is held back, say.
func (l *laps) unheeded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed || l.landed == l.seen:
	case l.taking > 0: // it ends with another look at the timer
	default:
		l.want(0)
		l.background(l.putBack)
	}
}

// putBack returns what is in the laps to the queues. What cannot be put back is
// still in Redis, where a rescuer finds it if we do not.
func (l *laps) putBack() {
	l.mu.Lock()
	mark := l.landed
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), earTimeout)
	defer cancel()
	_, err := unlap(ctx, l.source, l.pairs)
	l.mu.Lock()
	defer l.mu.Unlock()
	pause := pollTime
	if err == nil {
		l.seen, pause = max(l.seen, mark), lapTime
	}
	if l.landed != l.seen && !l.closed {
		l.late.Reset(pause)
	}
}

// background runs f in a goroutine that close waits for; close itself does what
// is to be done at the end. l.mu is held.
func (l *laps) background(f func()) {
	if !l.closed {
		l.unfinished.Go(f)
	}
}

// register makes it known that the queues may have laps, so that rescuers look
// there: before the first BLMOVE, and again when Redis has lost its data.
func (l *laps) register(ctx context.Context) error {
	if l == nil {
		return nil
	}
	members := make([]any, len(l.names))
	for i, name := range l.names {
		members[i] = name
	}
	return l.source.SAdd(ctx, keys.Laps, members...).Err()
}

// unlap puts what is in laps back into its queues, and tells how many. An error
// of one queue does not keep the others from it.
func unlap(ctx context.Context, rdb redis.UniversalClient, pairs []string) (int, error) {
	reply, err := unlapScript.Run(ctx, rdb, pairs).Slice()
	if err != nil {
		return 0, err
	}
	n, _ := reply[0].(int64)
	var failed []error
	for i := 1; i+1 < len(reply); i += 2 {
		failed = append(failed, fmt.Errorf("%s: %s", reply[i], reply[i+1]))
	}
	return int(n), errors.Join(failed...)
}
