package inspect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What people take away tells those who wait for it, if its end is to be kept.
func TestWhoWaitsHearsOfWhatPeopleDo(t *testing.T) {
	each := func(act func(ctx context.Context, j *inspect.QueuedJob) (inspect.Outcome, error)) func(context.Context, *inspect.Inspector) error {
		return func(ctx context.Context, i *inspect.Inspector) error {
			for j, err := range i.Queue("default").Each(ctx) {
				if err == nil {
					_, err = act(ctx, j)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		act  func(ctx context.Context, i *inspect.Inspector) error
		at   time.Duration
		want string
	}{
		"delete a queued job": {each(func(ctx context.Context, j *inspect.QueuedJob) (inspect.Outcome, error) { return j.Delete(ctx) }), 0, "deleted"},
		"kill a queued job":   {each(func(ctx context.Context, j *inspect.QueuedJob) (inspect.Outcome, error) { return j.Kill(ctx) }), 0, "dead"},
		"clear a queue": {func(ctx context.Context, i *inspect.Inspector) error {
			_, err := i.Queue("default").Clear(ctx)
			return err
		}, 0, "deleted"},
		"kill what is scheduled": {func(ctx context.Context, i *inspect.Inspector) error {
			_, err := i.ScheduledSet.KillAll(ctx, inspect.Bulk{})
			return err
		}, time.Hour, "dead"},
		"clear what is scheduled": {func(ctx context.Context, i *inspect.Inspector) error {
			_, err := i.ScheduledSet.Clear(ctx)
			return err
		}, time.Hour, "deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			ctx := t.Context()
			cl := client.New(rdb)
			defer func() { _ = cl.Close(ctx) }()
			jid := harness.Must(cl.PushClass(ctx, "Job", nil, client.KeepResult(time.Minute), client.In(c.at)))(t)
			other := harness.Must(cl.PushClass(ctx, "Job", nil, client.In(c.at)))(t)
			got := make(chan error)
			go func() {
				_, err := cl.Await(ctx, jid)
				got <- err
			}()
			harness.Await(t, "it is waited for", func() bool { return rdb.PubSubNumSub(ctx, keys.Result(jid)).Val()[keys.Result(jid)] == 1 })
			harness.OK(t, c.act(ctx, inspect.New(rdb)))
			if e, err := new(client.NotDoneError), <-got; !errors.As(err, &e) || e.Outcome != c.want {
				t.Errorf("the waiter got %v", err)
			}
			harness.Equal(t, "kept ends", rdb.Exists(ctx, keys.Result(jid), keys.Result(other)).Val(), 1)
		})
	}
}
