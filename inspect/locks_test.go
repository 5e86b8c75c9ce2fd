package inspect_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
)

func TestLocks(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		var want []string
		for n := range 1200 { // more than a page
			want = append(want, pushUnique(t, rdb, n, troupe.UntilDone))
		}
		harness.OK(t, rdb.LPush(ctx, "troupe:lock:spoilt", "x").Err())
		held := map[string]*inspect.Lock{}
		for l, err := range i.Locks(ctx) {
			harness.OK(t, err)
			if left := time.Until(l.Ends); left < 50*time.Minute || left > time.Hour || len(l.Digest) != 32 {
				t.Fatalf("%+v ends in %v", l, left)
			}
			held[l.Holder] = l
		}
		slices.Sort(want)
		var got []string
		for jid := range held {
			got = append(got, jid)
		}
		slices.Sort(got)
		harness.EqualList(t, "locks are held by", got, want)

		first := held[want[0]]
		again := harness.Must(i.Lock(ctx, first.Key))(t)
		harness.Equal(t, "holder", again.Holder, want[0])
		for j, err := range i.Queue("a").Each(ctx) {
			harness.OK(t, err)
			if l := harness.Must(i.LockOf(ctx, &j.JobRecord))(t); l.Holder != j.JID {
				t.Fatalf("%s: %+v", j.JID, l)
			}
		}
		if l, err := i.LockOf(ctx, &i.Queue("a").Job(job(1, "a")).JobRecord); l != nil || err != nil {
			t.Errorf("of a job that is not unique: %+v, %v", l, err)
		}

		// A lock that another job has taken since is not freed.
		harness.OK(t, rdb.Set(ctx, first.Key, "another", time.Hour).Err())
		harness.Equal(t, "free", harness.Must(first.Free(ctx))(t), inspect.Gone)
		second := harness.Must(i.Lock(ctx, first.Key))(t)
		harness.Equal(t, "free", harness.Must(second.Free(ctx))(t), inspect.Done)
		if _, err := i.Lock(ctx, first.Key); !errors.Is(err, inspect.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		if _, err := i.Lock(ctx, "queue:a"); err == nil || errors.Is(err, inspect.ErrNotFound) {
			t.Errorf("a key that is no lock: %v", err)
		}
	})
}
