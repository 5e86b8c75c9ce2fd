package actors_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
)

// The token of a job is the same in a first run, after a failure, after a rescue, in a call for many jobs and in a goroutine of the job.
func TestTheTokenOfAJobStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := testkit.NewMemory(t).Client
		tokens := make(chan string, 10)
		note := func(ctx context.Context) {
			token, err := troupe.Token(ctx, "charge")
			if err != nil {
				token = err.Error()
			}
			tokens <- token
		}
		var r troupe.Registry
		troupe.HandleClass(&r, "A", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			note(ctx)
			if p.Failures() == 0 {
				return errors.New("once more")
			}
			troupe.Go(ctx, func(ctx context.Context) error { note(ctx); return nil })
			return nil
		}))
		troupe.HandleMany(&r, func(_ context.Context, jobs []*troupe.Job[tokenMany]) []error {
			note(jobs[0].Context())
			return make([]error, len(jobs))
		}, troupe.Collect{Max: 1})
		k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: onlyDefault, Logger: zerolog.Nop()})
		rdb.LPush(t.Context(), "queue:default", job("A", "j1", "[]"))
		first := <-tokens
		for _, run := range []string{"retry", "goroutine"} {
			if again := <-tokens; again != first || len(first) != 36 {
				t.Errorf("%s: %s, in the first run %s", run, again, first)
			}
		}
		orphan(t, rdb, job("tokenMany", "j1", "[]"), false)
		if again := <-tokens; again != first {
			t.Errorf("rescue: %s, in the first run %s", again, first)
		}
		rdb.LPush(t.Context(), "queue:default", job("tokenMany", "j2", "[]"))
		if other := <-tokens; other == first {
			t.Errorf("another job has the token %s, too", first)
		}
		k.Await("all are done", k.Settled)
	})
}

type tokenMany struct{}

func (tokenMany) Class() string { return "tokenMany" }
