package fetch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

const (
	// endPause is the time between two tries to end commands that are not wanted
	// any more: one may not have arrived yet.
	endPause = 2 * time.Millisecond

	// endTries bounds them; a BLMOVE ends by itself after popTime.
	endTries = 100
)

// sitter waits like a thread of Sidekiq: on all queues, until a job has come from
// one of them, and then again behind all others. One command cannot wait on
// several queues and leave the job in Redis, so a sitter has a connection for each.
type sitter struct {
	on    bool // it is to wait
	lines []*line
}

// line is one connection of a sitter.
type line struct {
	queue  int
	of     *sitter
	start  chan struct{}
	busy   bool
	id     int64     // of the connection; 0: not known
	resume time.Time // not to be started before
}

// open makes the connections' client and starts the goroutines. l.mu is held.
func (l *laps) open() {
	l.wires = newWires()
	opt := l.wires.options(l.source, l.share*len(l.names))
	opt.MaxRetries = -1 // a silent second try would get a job of which nobody hears
	l.rdb = redis.NewClient(opt)
	l.opened(l.rdb)
	for range l.share {
		s := &sitter{}
		for q := range l.names {
			c := &line{queue: q, of: s, start: make(chan struct{}, 1)}
			s.lines = append(s.lines, c)
			l.unfinished.Go(func() { l.work(c) })
		}
		l.sitters = append(l.sitters, s)
	}
}

// due tells whether c is to wait. l.mu is held.
func (l *laps) due(c *line) bool {
	return c.of.on && !l.closed && !slices.Contains(l.paused, c.queue)
}

// adjust makes as many wait as are wanted, if anybody waits, and ends the others. One that was told
// to stop waits again when its commands have ended, or it would keep its place in
// front of those who have waited for longer. l.mu is held.
func (l *laps) adjust() {
	on := 0
	for _, s := range l.sitters {
		if s.on {
			on++
		}
	}
	now, many := time.Now(), false
	for _, s := range l.sitters {
		switch {
		case s.on && on > l.wanted:
			s.on = false
			on--
		case !s.on && on < l.wanted && (l.mute || s.rested()):
			s.on = true
			on++
		}
		for _, c := range s.lines {
			switch due := l.due(c); {
			case due && !c.busy && l.waiting > 0 && !now.Before(c.resume):
				c.busy = true
				c.start <- struct{}{}
			case !due && c.busy:
				many = true
			}
		}
	}
	switch {
	case !many || l.mute || l.closed:
	case !l.ending:
		l.ending = true
		l.background(l.endMany)
	default:
		select {
		case l.more <- struct{}{}:
		default:
		}
	}
}

func (s *sitter) rested() bool {
	return !slices.ContainsFunc(s.lines, func(c *line) bool { return c.busy })
}

// endMany ends blocked commands until there are none that are not to be.
func (l *laps) endMany() {
	for range endTries {
		ids := l.tooMany()
		if len(ids) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), earTimeout)
		_, err := l.source.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, id := range ids {
				pipe.ClientUnblock(ctx, id)
			}
			return nil
		})
		cancel()
		if err != nil {
			l.mu.Lock()
			l.mute = l.mute || isReply(err) // an ACL: what they get goes back at once
			l.mu.Unlock()
			break
		}
		select {
		case <-l.more:
		case <-time.After(endPause):
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = false
	l.adjust()
}

// tooMany are the connections that are blocked and not to be.
func (l *laps) tooMany() (ids []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sitters {
		for _, c := range s.lines {
			if c.busy && c.id != 0 && !l.due(c) {
				ids = append(ids, c.id)
			}
		}
	}
	if len(ids) == 0 {
		l.ending = false // in the same critical section as the look
	}
	return ids
}

// work is the goroutine of one line.
func (l *laps) work(c *line) {
	var conn *redis.Conn
	hangUp := func() {
		if conn != nil {
			_ = conn.Close()
			conn = nil
		}
	}
	defer hangUp()
	for range c.start {
		for again := true; again; {
			err := error(nil)
			if conn == nil {
				conn = l.rdb.Conn()
				err = l.dial(c, conn)
			}
			came := false
			if err == nil && l.still(c) {
				queue := l.names[c.queue]
				err = conn.BLMove(l.wires.ctx, keys.Queue(queue), keys.Lap(queue), "RIGHT", "LEFT", popTime).Err()
				came = err == nil
			}
			if err != nil && !isReply(err) {
				hangUp()
			}
			again = l.answered(c, came, err)
		}
	}
}

// dial prepares a connection: it is to be known by its number, and the queue to
// the rescuers.
func (l *laps) dial(c *line, conn *redis.Conn) error {
	id, err := conn.ClientID(l.wires.ctx).Result()
	if err == nil || isReply(err) { // without it the command ends by itself
		err = conn.SAdd(l.wires.ctx, keys.Laps, l.names[c.queue]).Err()
	}
	l.mu.Lock()
	c.id = id
	l.mute = l.mute || id == 0 && err == nil
	l.mu.Unlock()
	return err
}

// still tells whether a line that is about to block is still wanted.
func (l *laps) still(c *line) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.due(c)
}

// answered deals with an answer, and tells whether the line goes on.
func (l *laps) answered(c *line, came bool, err error) (again bool) {
	if redis.HasErrorPrefix(err, "OOM") { // fetching still works then, and makes room
		select {
		case <-time.After(pollTime):
		case <-l.wires.ctx.Done():
		}
		err = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.due(c)
	switch {
	case came && (l.closed || l.wanted == 0 && l.landed == l.seen || slices.Contains(l.paused, c.queue)):
		l.landed++ // too late: nobody could start it
		c.of.on = false
		l.background(l.putBack)
	case came:
		if l.landed == l.seen && l.taking == 0 {
			l.late.Reset(lapTime)
		}
		l.landed++
		c.of.on = false
		l.wanted = max(0, l.wanted-1) // until a take tells
		l.ring(nil)
	case l.closed:
	case errors.Is(err, redis.Nil):
		if l.waiting > 0 && due {
			return true
		}
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		c.resume = time.Now().Add(sickTime)
		l.sick.report(l.names[c.queue], err.Error())
	case err != nil || due:
		l.ring(err)
	}
	c.busy = false
	switch {
	case l.closed:
		l.rest()
	case err == nil || errors.Is(err, redis.Nil): // else the next wait tries again
		l.adjust()
	}
	return false
}

// ring wakes all who wait. l.mu is held.
func (l *laps) ring(err error) {
	l.bell.err = err
	close(l.bell.rung)
	l.bell = newBell()
}

// rest is called when l is closed, with l.mu held.
func (l *laps) rest() {
	for _, s := range l.sitters {
		if !s.rested() {
			return
		}
	}
	if !isClosed(l.done) {
		close(l.done)
	}
}

// close ends every blocked command, puts back what came too late, and waits for
// that within ctx.
func (l *laps) close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.late.Stop()
		l.ring(errClosed)
		l.rest()
		go l.finish()
	}
	l.mu.Unlock()
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish is the second half of close. Commands are ended before connections are:
// a server that has not yet noticed that a connection is gone would still give
// it a job. Where one of them does not end in time, it may have a job of which we
// have not heard.
func (l *laps) finish() {
	unheard := false
	if l.sitters != nil {
		l.endMany()
		select {
		case <-l.done:
		case <-time.After(time.Second):
			unheard = true
		}
		l.wires.cut()
		for _, s := range l.sitters {
			for _, c := range s.lines {
				close(c.start)
			}
		}
	}
	l.unfinished.Wait()
	l.mu.Lock()
	left := l.landed != l.seen || unheard
	l.mu.Unlock()
	if left {
		l.putBack()
	}
	if l.sitters != nil {
		_ = l.rdb.Close()
		l.wires.wait()
	}
	close(l.ended)
}
