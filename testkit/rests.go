package testkit

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/test/harness"
)

// Rests returns a context like ctx for Perform, PerformClass and handlers that are called without a daemon, and what troupe.Rest was
// told with it so far, by limit: of several times the longest. Nothing rests. Jobs whose class has Options.Limits may name
// those that have a Breaker, as in a daemon, and others any limit. It may be called concurrently.
func Rests(ctx context.Context) (context.Context, func() map[string]time.Duration) {
	n := &restNotes{all: map[string]time.Duration{}}
	return context.WithValue(context.WithValue(ctx, restsKey{}, n), jobctx.Rests{}, restTaker{notes: n}), n.copy
}

// RequireResting waits, for at most 10 s, until the limit rests, or that of a key, written NAME:KEY: its breaker is open, since
// jobs have failed or have called troupe.Rest. It returns until when. A failure shows what rests instead.
func RequireResting(tb testing.TB, rdb redis.UniversalClient, rule string) (until time.Time) {
	tb.Helper()
	i, ctx := inspect.New(rdb), context.WithoutCancel(tb.Context())
	var seen []string
	harness.Within(expectTime, func() bool {
		all, _, err := i.Limits(ctx)
		if err != nil {
			tb.Fatalf("limits: %v", err)
		}
		seen = nil
		for _, l := range all {
			for _, r := range l.Rules {
				name := r.Name
				if r.Key != "" {
					name += ":" + r.Key
				}
				if !r.Rests.IsZero() {
					seen = append(seen, name)
				}
				if name == rule {
					until = r.Rests
				}
			}
		}
		return !until.IsZero()
	})
	if until.IsZero() {
		tb.Fatalf("expected that the limit %q rests, got %q", rule, seen)
	}
	return until
}

type restsKey struct{}

// restNotes are the rests that handlers have asked for.
type restNotes struct {
	mu  sync.Mutex
	all map[string]time.Duration
}

func (n *restNotes) copy() map[string]time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.all)
}

// restTaker takes them from the job of a class.
type restTaker struct {
	notes  *restNotes
	limits []troupe.Limit // of the class
}

// withRests is ctx for a job of a class with these limits.
func withRests(ctx context.Context, limits []troupe.Limit) context.Context {
	n, _ := ctx.Value(restsKey{}).(*restNotes)
	return context.WithValue(ctx, jobctx.Rests{}, restTaker{cmp.Or(n, &restNotes{all: map[string]time.Duration{}}), limits})
}

// RestLimit is troupe.Rest.
func (t restTaker) RestLimit(name string, d time.Duration) error {
	if len(t.limits) > 0 {
		all := make([]*troupe.Limit, len(t.limits))
		for i := range t.limits {
			all[i] = &t.limits[i]
		}
		if err := job.CanRest(all, name); err != nil {
			return err
		}
	}
	t.notes.mu.Lock()
	defer t.notes.mu.Unlock()
	t.notes.all[name] = max(d, t.notes.all[name])
	return nil
}
