package laravel

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// round takes two jobs, acks one and fails the other, renews and closes.
func round(t *testing.T, rdb *redis.Client) {
	t.Helper()
	ctx := t.Context()
	s := &system{Options: Options{Prefix: "laravel_database_", Connection: "redis", Cache: &Cache{Prefix: "laravel_database_laravel_cache:", Database: 1}}}
	f := harness.Must(s.newFetcher(fetch.Env{Redis: rdb, Identity: "a:1:x", Capsule: "default", Queues: fetch.Strict{"q"}}))(t)
	harness.OK(t, f.Open(ctx))
	units, err := f.Take(ctx, 5, nil)
	if err != nil || len(units) != 2 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	results, err := f.Settle(ctx, []fetch.Move{{Unit: units[1], To: fetch.ToDead, Score: 1, Payload: s.row(units[1].Payload, "q", errors.New("boom"), time.Now())}})
	if err != nil || results[0] != fetch.Moved {
		t.Fatalf("%v, %v", results, err)
	}
	harness.Check(t, f.Renew(ctx))
	if _, err := f.Take(ctx, 0, units[:1]); err != nil {
		t.Error(err)
	}
	harness.Check(t, f.Wait(ctx, 10*time.Millisecond))
	if left, err := f.Close(ctx); left != 0 || err != nil {
		t.Errorf("%d left, %v", left, err)
	}
}

// The rights that the manual names are enough.
func TestRights(t *testing.T) {
	manual := harness.Must(os.ReadFile("../../docs/laravel.md"))(t)
	rule := regexp.MustCompile(`ACL SETUSER .*`).FindString(string(manual))
	server := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = admin.Close() }()
	var args []any
	for word := range strings.FieldsSeq(rule) {
		args = append(args, word)
	}
	if len(args) < 5 {
		t.Fatalf("the manual has %q", rule)
	}
	harness.OK(t, admin.Do(t.Context(), args...).Err())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "troupe", Password: "secret", MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	c := NewClient(rdb, "laravel_database_")
	harness.Must(c.Push(t.Context(), Job{Queue: "q", Name: "x"}, Job{Queue: "q", Name: "x"}, Job{Queue: "q", Name: "x", At: time.Now().Add(time.Hour)}))(t)
	round(t, rdb)
	failed, err := c.Failed(t.Context(), 0, 0)
	if err != nil || len(failed) != 1 {
		t.Fatalf("%d failed, %v", len(failed), err)
	}
	harness.Check(t, errors.Join(c.Retry(t.Context(), failed[0].ID)))
}

// A Redis without memory serves what is under way: nothing of it needs more.
func TestOutOfMemory(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()
	harness.Must(NewClient(rdb, "laravel_database_").Push(ctx, Job{Queue: "q", Name: "x"}, Job{Queue: "q", Name: "x"}))(t)
	harness.OK(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	if err := rdb.Set(ctx, "x", "y", 0).Err(); err == nil {
		t.Fatal("Redis has memory")
	}
	round(t, rdb)
}
