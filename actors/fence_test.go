package actors_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/testkit"
)

// lateFence is a fetcher whose incarnation 1 a rescuer has ended. Its first Take brings jobs of
// incarnation 2, and only a later call tells of the fence.
type lateFence struct {
	env  fetch.Env
	jobs []string // receipts

	mu    sync.Mutex
	taken bool
	told  bool
	acked map[string]int // by receipt
	moved map[string]int // likewise
}

func (f *lateFence) Open(context.Context) error         { return nil }
func (f *lateFence) Renew(context.Context) error        { return nil }
func (f *lateFence) Durable() bool                      { return true }
func (f *lateFence) Close(context.Context) (int, error) { return 0, nil }

func (f *lateFence) Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(min(d, time.Second)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *lateFence) Take(_ context.Context, n int, acks []fetch.Unit) (units []fetch.Unit, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.taken && n >= len(f.jobs) {
		f.taken = true
		f.env.Fenced(1)
		for _, jid := range f.jobs {
			units = append(units, fetch.Unit{
				Queue: "default", Payload: []byte(`{"class":"Job","args":[],"jid":"` + jid + `","queue":"default","retry":true}`),
				Receipt: jid, Incarnation: 2,
			})
		}
		return units, nil
	}
	if len(acks) > 0 && f.fencesLocked() {
		return nil, &fetch.FencedError{ID: "x", Incarnation: 1}
	}
	for _, u := range acks {
		f.acked[u.Receipt]++
	}
	return nil, nil
}

func (f *lateFence) Settle(_ context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fencesLocked() {
		return nil, &fetch.FencedError{ID: "x", Incarnation: 1}
	}
	for _, m := range moves {
		f.moved[m.Unit.Receipt]++
	}
	return make([]fetch.Result, len(moves)), nil
}

// fencesLocked tells once that incarnation 1 has ended.
func (f *lateFence) fencesLocked() bool {
	if f.told {
		return false
	}
	f.told = true
	return true
}

// settled tells how often the job was acked and moved.
func (f *lateFence) settled(jid string) (acked, moved int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acked[jid], f.moved[jid]
}

// A fence ends one incarnation. What is settled for the next one when its error comes is not
// concerned: an ack, a retry and a requeue at the deadline come into Redis all the same, once, also if a hook of
// the logger panics at the line about the fence.
func TestALateFenceKeepsWhatTheNextIncarnationSettles(t *testing.T) {
	for name, tt := range map[string]struct {
		do           func(context.Context) error
		acked, moved int
	}{
		"an ack":    {func(context.Context) error { return nil }, 1, 0},
		"a retry":   {func(context.Context) error { return errors.New("boom") }, 0, 1},
		"a requeue": {func(ctx context.Context) error { <-ctx.Done(); return nil }, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f *lateFence
				hook := zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, text string) {
					if strings.HasPrefix(text, "fenced") {
						panic("a bug in a hook of the user's")
					}
				})
				k := testkit.Start(t, actors.Config{
					Logger:   zerolog.New(io.Discard).Hook(hook),
					Registry: handlers(map[string]func(context.Context) error{"Job": tt.do}, troupe.Options{}),
					Capsules: []actors.Capsule{{Concurrency: 2, Fetch: func(e fetch.Env) (fetch.Fetcher, error) {
						f = &lateFence{env: e, jobs: []string{"a", "b"}, acked: map[string]int{}, moved: map[string]int{}}
						return f, nil
					}}},
				})
				time.Sleep(time.Minute)
				report := k.Stop()
				for _, jid := range f.jobs {
					if acked, moved := f.settled(jid); acked != tt.acked || moved != tt.moved {
						t.Errorf("job %s was acked %d times and moved %d times, want %d and %d", jid, acked, moved, tt.acked, tt.moved)
					}
				}
				if !f.told || len(report.Left) > 0 {
					t.Errorf("the fence was told: %t; the stop: %s", f.told, report)
				}
			})
		})
	}
}
