package fetch

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// hear takes a message of the ear. It is called on the goroutine that reads the
// connection and never waits.
func (d *doorbell) hear(e *ears, m *redis.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ears != e {
		return
	}
	e.heard, e.asked = time.Now(), time.Time{}
	switch {
	case m.Channel == d.name:
		switch m.Payload {
		case "baton":
			d.seat, d.armed, d.handed = listener, false, listener
			d.ring()
		case "second":
			if d.seat == queued {
				d.seat, d.armed, d.handed = deputy, false, deputy
				d.ring()
			}
		}
	case !d.concerns(m.Payload) && !slices.ContainsFunc(m.PayloadSlice, d.concerns):
	case d.seat == deputy:
		d.armed = false
		d.stand.Reset(standIn)
	case d.seat == listener || d.arming:
		d.armed, d.crossed = false, true
		d.ring()
	}
}

// standIn rings for the deputy: by now what was pushed is taken, or the listener
// has died.
func (d *doorbell) standIn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seat != away { // it may have the baton by now
		d.late = true
		d.ring()
	}
}

// concerns tells whether a change of key is a reason to look. Up to Redis 7.0
// all keys of a script are tracked when it has read one. d.mu is held.
func (d *doorbell) concerns(key string) bool {
	i, ours := d.watch[key]
	return ours && !slices.Contains(d.paused, i) || key == keys.Paused
}

// ring wakes who waits, and whoever waits next before a look. d.mu is held.
func (d *doorbell) ring() {
	if !isClosed(d.rung) {
		close(d.rung)
	}
	if d.seat != away && !d.closed {
		d.unheeded = true
		d.nudge.Reset(nudgeTime)
	}
}

// unheard is the nudge: the bell has rung and nobody came, since every slot is
// held back, say. Somebody else is to hear it.
func (d *doorbell) unheard() { d.background(func() { d.leave(true) }) }

// leave gives the seat up, unless it is wanted again: somebody waits, or has
// looked after the ring that was unheard.
func (d *doorbell) leave(unheard bool) {
	d.turn <- struct{}{} // held for a call or two at most
	defer func() { <-d.turn }()
	d.mu.Lock()
	e := d.ears
	stay := e == nil || d.seat == away || unheard && !d.unheeded || !unheard && d.waiting > 0
	d.mu.Unlock()
	if stay {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), earTimeout)
	defer cancel()
	_, _ = d.look(ctx, e, "1") // else the baton ends by itself, or with the connection
}

// background runs f unless the doorbell is closed; close waits for it.
func (d *doorbell) background(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.unfinished.Go(f)
	}
}

// drop gives broken ears up; the next wait opens new ones. d.mu is held.
func (d *doorbell) drop(e *ears) {
	if d.ears != e {
		return
	}
	d.stray = d.stray || d.arming || d.seat != away
	d.ears, d.seat, d.armed = nil, away, false
	if time.Since(e.opened) < brokenTime {
		d.without = time.Now().Add(brokenTime)
	}
	d.unfinished.Go(e.shut)
	d.ring()
}

// close gives the seat up and ends everything, within ctx.
func (d *doorbell) close(ctx context.Context) error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	d.ring()
	d.nudge.Stop()
	d.stand.Stop()
	d.mu.Unlock()
	if first {
		go d.end()
	}
	select {
	case <-d.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end is the second half of close.
func (d *doorbell) end() {
	d.leave(false)
	d.mu.Lock()
	e, stray := d.ears, d.stray
	d.ears = nil
	args := append(slices.Clone(d.sit), d.name, "s", "1")
	d.mu.Unlock()
	if e != nil {
		e.shut()
	}
	if stray { // a flush of any database breaks ears, and a daemon may end before it has new ones
		ctx, cancel := context.WithTimeout(context.Background(), earTimeout)
		_, _ = sitScript.run(ctx, d.source, args)
		cancel()
	}
	d.unfinished.Wait()
	close(d.ended)
}
