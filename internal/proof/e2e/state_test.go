package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// leftovers are the jobs in Redis: where they are and their bytes.
func leftovers(t testing.TB, rdb *redis.Client) []string {
	t.Helper()
	ctx := t.Context()
	var out []string
	for _, set := range []string{"retry", "schedule", "dead"} {
		for _, m := range rdb.ZRange(ctx, set, 0, -1).Val() {
			out = append(out, set+": "+m)
		}
	}
	names := rdb.Keys(ctx, "queue:*").Val()
	slices.Sort(names)
	for _, key := range names {
		for _, job := range rdb.LRange(ctx, key, 0, -1).Val() {
			out = append(out, key+": "+job)
		}
	}
	for _, job := range private(t, rdb) {
		out = append(out, "private: "+job)
	}
	return out
}

// private are the bytes of all jobs in progress anywhere.
func private(t testing.TB, rdb *redis.Client) []string {
	t.Helper()
	var out []string
	lists := harness.Must(redistest.InProgress(t.Context(), rdb))(t)
	for _, jobs := range lists {
		out = append(out, jobs...)
	}
	return out
}

// clean wants no job left anywhere.
func clean(t testing.TB, rdb *redis.Client) {
	t.Helper()
	testkit.Await(t, "no job is left in Redis", func() bool { return len(leftovers(t, rdb)) == 0 })
}

// retryNow makes every retry due.
func retryNow(t testing.TB, rdb *redis.Client) {
	t.Helper()
	for _, m := range rdb.ZRange(t.Context(), "retry", 0, -1).Val() {
		harness.OK(t, rdb.ZAddXX(t.Context(), "retry", redis.Z{Score: 1, Member: m}).Err())
	}
}

// where tells in which key the job with this jid is, "" for nowhere.
func where(t testing.TB, rdb *redis.Client, jid string) string {
	t.Helper()
	for _, l := range leftovers(t, rdb) {
		if strings.Contains(l, `"jid":"`+jid+`"`) {
			key, _, _ := strings.Cut(l, ": ")
			return key
		}
	}
	return ""
}

// push pushes a job and returns its jid and the bytes that are in Redis.
func push(t testing.TB, rdb *redis.Client, class string, args string, opts ...client.Option) (jid, raw string) {
	t.Helper()
	jid = harness.Must(client.New(rdb).PushJSON(t.Context(), class, json.RawMessage(args), opts...))(t)
	for _, l := range leftovers(t, rdb) {
		if _, raw, _ = strings.Cut(l, ": "); strings.Contains(raw, jid) {
			return jid, raw
		}
	}
	return jid, ""
}
