package script

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe"
)

// Jobs performs Steps and counts. It is safe for concurrent use.
type Jobs struct {
	// OnCancel, if set before the first job, is called by a Hang whose context
	// was cancelled, before it returns.
	OnCancel func(ctx context.Context)

	mu       sync.Mutex
	runs     map[string]int // by jid
	ends     map[string]int
	running  int
	most     int
	over     bool          // Release was called
	released chan struct{} // of the first job's bubble, if it is in one; see wait
}

// New returns a Jobs that releases all jobs at the end of the test. One that is made
// outside the bubble of its jobs, as for testkit.Virtual, cannot do that: release
// Unresponsive jobs in the bubble.
func New(tb testing.TB) *Jobs {
	tb.Helper()
	j := &Jobs{runs: map[string]int{}, ends: map[string]int{}}
	tb.Cleanup(func() {
		if j.Running() > 0 {
			j.Release()
		}
	})
	return j
}

// Registry returns a new registry that has j as its handler.
func (j *Jobs) Registry(opts ...troupe.Options) *troupe.Registry {
	r := new(troupe.Registry)
	troupe.Handle(r, j.perform, opts...)
	return r
}

func (j *Jobs) perform(ctx context.Context, job *troupe.Job[Step]) error {
	j.mu.Lock()
	j.runs[job.JID]++
	j.running++
	j.most = max(j.most, j.running)
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.running--
		j.ends[job.JID]++
	}()
	switch job.Args.Do {
	case "ok":
	case "fail":
		return Err
	case "panic":
		panic("scripted panic")
	case "goexit":
		runtime.Goexit()
	case "discard":
		return troupe.Discard(Err)
	case "kill":
		return troupe.Kill(Err)
	case "slow":
		time.Sleep(time.Duration(job.Args.N) * time.Millisecond)
	case "hang":
		return j.hang(ctx)
	case "unresponsive":
		<-j.wait()
	case "exit":
		os.Exit(int(job.Args.N))
	default:
		return troupe.Kill(fmt.Errorf("no such step: %q", job.Args.Do))
	}
	return nil
}

func (j *Jobs) hang(ctx context.Context) error {
	select {
	case <-j.wait():
		return nil
	case <-ctx.Done():
	}
	if j.OnCancel != nil {
		j.OnCancel(ctx)
	}
	return ctx.Err()
}

// Release lets every Hang and Unresponsive job go on, those of the future as well.
func (j *Jobs) Release() {
	done := j.wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.over {
		j.over = true
		close(done)
	}
}

// wait returns what Release closes. It is made by the first who waits, for a bubble
// must make its own.
func (j *Jobs) wait() chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.released == nil {
		j.released = make(chan struct{})
	}
	return j.released
}

// Ended reports whether the job jid has run and all of its runs have ended.
func (j *Jobs) Ended(jid string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.runs[jid] > 0 && j.ends[jid] == j.runs[jid]
}

// Runs returns how often each job has begun to run, by jid.
func (j *Jobs) Runs() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.runs)
}

// Running returns the number of jobs that run now.
func (j *Jobs) Running() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.running
}

// Most returns the highest number of jobs that ever ran at once.
func (j *Jobs) Most() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.most
}
