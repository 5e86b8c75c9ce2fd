package actors

import (
	"runtime"
	"time"

	"github.com/troupehq/troupe/actors/internal/run"
	"github.com/troupehq/troupe/fetch"
)

// take makes one Take.
func (in *intake) take(want int) {
	c := in.c
	err := in.open()
	if err == nil {
		err = c.exchange(want, c.settler.Grab())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	in.taking = false
	if err != nil {
		in.drained = false // what it took, before its reply was lost, waits for a Take and nothing else
	}
	in.calledLocked("fetch", err)
}

// open registers the fetcher once.
func (in *intake) open() error {
	c := in.c
	if in.isOpened() {
		return nil
	}
	ctx, cancel := c.env.Call()
	defer cancel()
	err := c.define(ctx)
	if err == nil {
		err = c.fetcher.Open(ctx)
	}
	if err != nil {
		c.env.Outage.Failed(c.path("fetcher"), err)
		return err
	}
	c.env.Outage.OK(c.path("fetcher"))
	c.mu.Lock()
	defer c.mu.Unlock()
	in.opened = true
	return nil
}

func (in *intake) isOpened() bool {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	return in.opened
}

// wait makes one Wait.
func (in *intake) wait(s step) {
	c := in.c
	err := c.fetcher.Wait(s.ctx, s.most)
	if s.ctx.Err() != nil {
		err = nil
	}
	if err != nil {
		c.env.Outage.Failed(c.path("fetcher"), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	in.endWaitLocked()
	in.endWait, in.drained = nil, false
	in.calledLocked("wait", err)
}

// calledLocked notes the end of a call.
func (in *intake) calledLocked(what string, err error) {
	in.calling = false
	if err != nil {
		in.failedLocked(what)
		return
	}
	in.failures, in.retryAt = 0, time.Time{}
}

// failedLocked puts off the next call.
func (in *intake) failedLocked(what string) {
	in.retryAt = time.Now().Add(in.c.env.Backoff(what+" "+in.c.cfg.Name, in.failures))
	in.failures++
}

// askedInVain notes that a call for so many jobs has failed.
func (in *intake) askedInVain(want int) {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	in.ahead.Failed(want)
}

// receive hands fetched jobs to the pool: those that come after quiet began go back to their queue at
// once.
func (in *intake) receive(got []fetch.Unit, want int, took time.Duration) {
	c := in.c
	now := time.Now()
	items := run.Items(got, c.system.wire, now)
	c.runs.AskAhead(items, now)
	size := 0
	for _, u := range got {
		size += len(u.Payload)
	}
	c.mu.Lock()
	in.answered, in.fenced = true, time.Time{}
	if want > 0 {
		in.ahead.Called(took, len(got), size)
		in.drained = len(got) < min(want, takeLimit) && in.ahead.Emptied(size)
		in.found = len(got) > 0
	}
	added := c.pool.addLocked(items)
	c.mu.Unlock()
	if !added {
		c.giveBack(items)
	}
	if f, ok := c.fetcher.(fetch.Ending); ok && f.Ended() {
		c.reach(limitAsked)
	}
	if len(got) > 0 && len(got) < want {
		runtime.Gosched() // the workers first: there is no hurry to fetch again
	}
}
