package sched_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// The lock of a unique job that client middleware stops as it is due ends with it; that of one that goes to its queue does not.
func TestALockEndsWithAJobThatIsDropped(t *testing.T) {
	for name, open := range map[string]func(*testing.T) redis.UniversalClient{
		"server":  func(t *testing.T) redis.UniversalClient { rdb, _ := redistest.New(t); return rdb },
		"cluster": func(t *testing.T) redis.UniversalClient { rdb, _ := redistest.NewCluster(t); return rdb },
	} {
		t.Run(name, func(t *testing.T) {
			rdb, ctx := open(t), t.Context()
			plain, locks := client.New(rdb), map[string]string{}
			for class, u := range map[string]troupe.Unique{"Dropped": {}, "Kept": {}, "Period": {Until: troupe.UntilPeriod, For: time.Hour}} {
				unique := client.Unique(u)
				harness.Must(plain.PushClass(ctx, class, []any{1}, unique, client.In(10*time.Millisecond)))(t)
				_, err := plain.PushClass(ctx, class, []any{1}, unique)
				dup, ok := errors.AsType[*client.DuplicateError](err)
				if !ok {
					t.Fatalf("%s: a second push: %v", class, err)
				}
				locks[class] = dup.Lock
			}
			mw := func(next client.PushFunc) client.PushFunc {
				return func(ctx context.Context, p *troupe.Payload) error {
					if p.Class() != "Kept" {
						return nil
					}
					return next(ctx, p)
				}
			}
			s := sched.New(sched.Config{Redis: rdb, Client: client.New(rdb, client.WithMiddleware(mw))})
			var got sched.Promoted
			harness.Await(t, "all are due", func() bool {
				now := drain(t, s, keys.Schedule)
				got.Moved, got.Dropped = got.Moved+now.Moved, got.Dropped+now.Dropped
				return got.Moved+got.Dropped == 3
			})
			harness.Equal(t, "dropped", got.Dropped, 2)
			for class, want := range map[string]int64{"Dropped": 0, "Kept": 1, "Period": 1} {
				harness.Equal(t, class+": locks", rdb.Exists(ctx, locks[class]).Val(), want)
			}
		})
	}
}
