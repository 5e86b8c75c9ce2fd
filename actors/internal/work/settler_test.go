package work

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
)

// writer is the capsule of a settler: it notes when which moves are written. A write takes 100 µs.
type writer struct {
	began time.Time
	calls []string
}

func (w *writer) Path() string                 { return "launcher/manager" }
func (w *writer) CarriesAcks() bool            { return false }
func (w *writer) Ack(acks []*Item) error       { return nil }
func (w *writer) Reached(context.Context) bool { return true }
func (w *writer) Settled(...*Item)             {}

func (w *writer) Settle(_ context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	text := time.Since(w.began).String() + ":"
	for _, m := range moves {
		text += " " + m.Unit.Receipt
	}
	w.calls = append(w.calls, text)
	time.Sleep(100 * time.Microsecond) // the network
	return make([]fetch.Result, len(moves)), nil
}

// TestMovesWaitForCompany says when moves are written: questions at once and alone; the end of a job that was let in ahead of its
// run after 5 ms; of any other that is done after 500 µs, with all that waits; and all at once with 128 of them.
func TestMovesWaitForCompany(t *testing.T) {
	ahead := &fetch.Effects{Rules: &job.Rules{Ahead: true}}
	asked := &fetch.Effects{Rules: &job.Rules{}}
	type step struct {
		after time.Duration
		move  fetch.Move
		async bool
	}
	question := fetch.Move{Unit: fetch.Unit{Receipt: "question"}, To: fetch.ToStay, Stay: &fetch.Stay{}, Effects: asked}
	plenty := fetch.Move{Unit: fetch.Unit{Receipt: "plenty"}, Effects: ahead}
	end := fetch.Move{Unit: fetch.Unit{Receipt: "end"}, Effects: asked}
	retry := fetch.Move{Unit: fetch.Unit{Receipt: "retry"}, To: fetch.ToRetry}
	death := fetch.Move{Unit: fetch.Unit{Receipt: "death"}, To: fetch.ToDead}
	plenty.To, end.To = fetch.ToNone, fetch.ToNone
	for name, c := range map[string]struct {
		steps []step
		want  []string
	}{
		"let in ahead":        {[]step{{0, plenty, true}, {time.Millisecond, plenty, true}}, []string{"5ms: plenty plenty"}},
		"done":                {[]step{{0, end, true}}, []string{"500µs: end"}},
		"done behind others":  {[]step{{0, plenty, true}, {time.Millisecond, end, true}}, []string{"1.5ms: plenty end"}},
		"a question":          {[]step{{0, plenty, true}, {time.Millisecond, question, false}}, []string{"1ms: question", "5ms: plenty"}},
		"late by a question":  {[]step{{0, plenty, true}, {4950 * time.Microsecond, question, false}}, []string{"4.95ms: question", "5.05ms: plenty"}},
		"who comes meanwhile": {[]step{{0, end, true}, {550 * time.Microsecond, plenty, true}}, []string{"500µs: end", "5.6ms: plenty"}},
		"one that is awaited": {[]step{{0, plenty, true}, {time.Millisecond, death, false}}, []string{"1ms: plenty death"}},
		"a failure":           {[]step{{0, retry, true}}, []string{"5ms: retry"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := newSettler(t)
				for _, step := range c.steps {
					time.Sleep(step.after) // of the bubble
					if m := (&Move{Move: step.move, Then: func() {}}); step.async {
						s.SubmitAsync(m)
					} else {
						s.Submit(NewMove(&Item{Unit: step.move.Unit}, step.move))
					}
				}
				time.Sleep(time.Second) // of the bubble
				synctest.Wait()
				if diff := cmp.Diff(c.want, w.calls); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s, w := newSettler(t)
		for range asyncBatch {
			s.SubmitAsync(&Move{Move: plenty, Then: func() {}})
		}
		time.Sleep(time.Millisecond) // of the bubble
		synctest.Wait()
		if len(w.calls) != 1 {
			t.Errorf("%d moves were written by %d calls", asyncBatch, len(w.calls))
		}
	})
}

func newSettler(t *testing.T) (*Settler, *writer) {
	w := &writer{began: time.Now()}
	system := supervised.New(zerolog.Nop(), "host:1:0123456789ab", "launcher", func(event.Event) {})
	return NewSettler(&env.Env{Log: zerolog.Nop(), System: system, Changes: new(supervised.Broadcast), Settling: t.Context()}, w), w
}
