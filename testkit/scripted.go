package testkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe"
)

// ScriptedClass is the class of the jobs that a Scripted performs.
const ScriptedClass = "Scripted"

// ErrScripted is what jobs return that are to fail.
var ErrScripted = errors.New("scripted failure")

// Fate is the argument list of a scripted job: what becomes of it.
type Fate struct {
	Do string `arg:"0"`
	N  int64  `arg:"1,optional"` // milliseconds of "slow", code of "exit"
}

// Class returns ScriptedClass.
func (Fate) Class() string { return ScriptedClass }

// OK is done at once.
func OK() Fate { return Fate{Do: "ok"} }

// Fail returns ErrScripted.
func Fail() Fate { return Fate{Do: "fail"} }

// Panic panics.
func Panic() Fate { return Fate{Do: "panic"} }

// Goexit ends its goroutine, as t.FailNow does.
func Goexit() Fate { return Fate{Do: "goexit"} }

// Discard returns troupe.Discard(ErrScripted).
func Discard() Fate { return Fate{Do: "discard"} }

// Kill returns troupe.Kill(ErrScripted).
func Kill() Fate { return Fate{Do: "kill"} }

// Slow is done after d, in whole milliseconds, whatever its context says.
func Slow(d time.Duration) Fate { return Fate{Do: "slow", N: d.Milliseconds()} }

// Hang runs until its context is cancelled, and returns the context's error, or
// until Scripted.Release.
func Hang() Fate { return Fate{Do: "hang"} }

// Deaf runs until Scripted.Release, whatever its context says.
func Deaf() Fate { return Fate{Do: "deaf"} }

// Exit ends the process with code, as if it had crashed: for tests that run the
// daemon in a process of its own.
func Exit(code int) Fate { return Fate{Do: "exit", N: int64(code)} }

// Scripted performs jobs whose args pick their fate, and counts. It is safe for
// concurrent use. Jobs pushed by others carry the same args: ["slow", 20].
type Scripted struct {
	// OnCancel, if set before the first job, is called by a Hang whose context
	// was cancelled, before it returns.
	OnCancel func(ctx context.Context)

	mu       sync.Mutex
	runs     map[string]int // by jid
	ends     map[string]int
	running  int
	most     int
	causes   []error
	released chan struct{}
	once     sync.Once
}

// NewScripted returns a Scripted whose jobs are all released at the end of the
// test. Make it inside the bubble that it is used in, if any.
func NewScripted(tb testing.TB) *Scripted {
	tb.Helper()
	s := &Scripted{runs: map[string]int{}, ends: map[string]int{}, released: make(chan struct{})}
	tb.Cleanup(s.Release)
	return s
}

// Registry returns a new registry with s as its only handler.
func (s *Scripted) Registry(opts ...troupe.Options) *troupe.Registry {
	r := new(troupe.Registry)
	s.Register(r, opts...)
	return r
}

// Register adds s to r.
func (s *Scripted) Register(r *troupe.Registry, opts ...troupe.Options) {
	troupe.Handle(r, s.perform, opts...)
}

func (s *Scripted) perform(ctx context.Context, j *troupe.Job[Fate]) error {
	s.mu.Lock()
	s.runs[j.JID]++
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
		s.ends[j.JID]++
	}()
	switch j.Args.Do {
	case "ok":
	case "fail":
		return ErrScripted
	case "panic":
		panic("scripted panic")
	case "goexit":
		runtime.Goexit()
	case "discard":
		return troupe.Discard(ErrScripted)
	case "kill":
		return troupe.Kill(ErrScripted)
	case "slow":
		time.Sleep(time.Duration(j.Args.N) * time.Millisecond)
	case "hang":
		return s.hang(ctx)
	case "deaf":
		<-s.released
	case "exit":
		os.Exit(int(j.Args.N))
	default:
		return troupe.Kill(fmt.Errorf("no such fate: %q", j.Args.Do))
	}
	return nil
}

func (s *Scripted) hang(ctx context.Context) error {
	select {
	case <-s.released:
		return nil
	case <-ctx.Done():
	}
	if s.OnCancel != nil {
		s.OnCancel(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.causes = append(s.causes, context.Cause(ctx))
	return ctx.Err()
}

// Release lets every Hang and Deaf job go on, those of the future as well.
func (s *Scripted) Release() { s.once.Do(func() { close(s.released) }) }

// Started tells whether the job jid has begun to run.
func (s *Scripted) Started(jid string) bool { return s.Runs()[jid] > 0 }

// Ended tells whether each run of the job jid has ended, and it has run.
func (s *Scripted) Ended(jid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[jid] > 0 && s.ends[jid] == s.runs[jid]
}

// Runs returns how often each job has begun to run, by jid.
func (s *Scripted) Runs() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.runs)
}

// Ends returns how often each job's run has ended, in whatever way, by jid.
func (s *Scripted) Ends() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ends)
}

// Running returns the number of jobs that run now.
func (s *Scripted) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// Most returns the highest number of jobs that ever ran at once.
func (s *Scripted) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Causes returns why the contexts of Hang jobs were cancelled, in order.
func (s *Scripted) Causes() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.causes...)
}
