package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// tb is what testing and rapid have in common.
type tb interface {
	harness.Test
	Context() context.Context
}

func start(t *testing.T, set ...func(*inspect.Inspector)) (*inspect.Inspector, *redis.Client, string) {
	t.Helper()
	rdb, url := redistest.New(t)
	i := inspect.New(rdb)
	for _, fn := range set {
		fn(i)
	}
	return i, rdb, url
}

// ruby runs a script with the API of the real Sidekiq and returns the values
// that it has given to out.
func ruby(t *testing.T, url, script string) []any {
	t.Helper()
	const head = "$out = []; def out(*values) = $out.concat(values)\n"
	return redistest.RubyJSON[[]any](t, url, head+script+"\nshow $out")
}

// same compares what Go and Ruby have read, as JSON.
func same(t *testing.T, what string, mine, rubys any) {
	t.Helper()
	text := harness.Must(json.Marshal(mine))(t)
	var got any
	harness.OK(t, json.Unmarshal(text, &got))
	// Ruby's times as floats are off by a microsecond's fraction here and there.
	if diff := cmp.Diff(rubys, got, cmpopts.EquateApprox(0, 1e-5)); diff != "" {
		t.Errorf("%s (-Ruby +Go):\n%s", what, diff)
	}
}

// all collects a walk.
func all[T any](t tb, seq iter.Seq2[T, error]) (values []T) {
	t.Helper()
	for v, err := range seq {
		harness.OK(t, err)
		values = append(values, v)
	}
	return values
}

func only[T any](t tb, seq iter.Seq2[T, error]) T {
	t.Helper()
	values := all(t, seq)
	if len(values) != 1 {
		t.Fatalf("got %d values, want 1", len(values))
	}
	return values[0]
}

func jid(n int) string { return fmt.Sprintf("%024x", n) }

// job is what Ruby's client has pushed.
func job(n int, queue string) string {
	return fmt.Sprintf(`{"retry":true,"queue":%q,"class":"X","args":[%d],"jid":%q,"created_at":1695224881.5,"enqueued_at":1695224881.75}`, queue, n, jid(n))
}

// failed is what Ruby's retry logic has stored.
func failed(n int, queue string, count int) string {
	raw := strings.TrimSuffix(job(n, queue), "}") +
		fmt.Sprintf(`,"error_message":"oh <no> é","error_class":"RuntimeError","failed_at":1695224900.5,"retry_count":%d`, count)
	if count > 0 {
		raw += `,"retried_at":1695224950.25`
	}
	return raw + "}"
}

func add(t tb, rdb redis.Cmdable, set string, score float64, members ...string) {
	t.Helper()
	for chunk := range slices.Chunk(members, 500) {
		z := make([]redis.Z, len(chunk))
		for i, m := range chunk {
			z[i] = redis.Z{Score: score, Member: m}
		}
		harness.OK(t, rdb.ZAdd(t.Context(), set, z...).Err())
	}
}

// push makes a queue in which the last one given is the newest.
func push(t tb, rdb redis.Cmdable, queue string, jobs ...string) {
	t.Helper()
	harness.OK(t, rdb.SAdd(t.Context(), "queues", queue).Err())
	for chunk := range slices.Chunk(jobs, 500) {
		values := make([]any, len(chunk))
		for i, j := range chunk {
			values[i] = j
		}
		harness.OK(t, rdb.LPush(t.Context(), "queue:"+queue, values...).Err())
	}
}

// snapshot returns all that is in a database. Times that both sides take from
// their clocks become "now" if they are.
func snapshot(t tb, rdb *redis.Client) map[string]any {
	t.Helper()
	ctx := t.Context()
	out := make(map[string]any)
	for _, key := range rdb.Keys(ctx, "*").Val() {
		switch kind := rdb.Type(ctx, key).Val(); kind {
		case "string":
			out[key] = rdb.Get(ctx, key).Val()
		case "set":
			out[key] = slices.Sorted(slices.Values(rdb.SMembers(ctx, key).Val()))
		case "hash":
			out[key] = rdb.HGetAll(ctx, key).Val()
		case "list":
			var list []string
			for _, raw := range rdb.LRange(ctx, key, 0, -1).Val() {
				list = append(list, stamped(raw))
			}
			out[key] = list
		case "zset":
			var entries []string
			for _, z := range rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
				score := scores.Format(z.Score)
				if time.Since(time.Unix(int64(z.Score), 0)).Abs() < time.Hour {
					score = "now"
				}
				entries = append(entries, score+" "+z.Member.(string))
			}
			out[key] = slices.Sorted(slices.Values(entries))
		default:
			t.Fatalf("%s is a %s", key, kind)
		}
	}
	return out
}

// stamped replaces a fresh enqueued_at.
func stamped(raw string) string {
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil {
		return raw
	}
	if at, ok := p.Time("enqueued_at"); ok && time.Since(at).Abs() < time.Hour {
		p.SetString("enqueued_at", "now")
	}
	return string(p.Bytes())
}

// jids returns the ids of the jobs in a queue, the newest first.
func jids(t tb, rdb redis.Cmdable, queue string) (ids []string) {
	t.Helper()
	for _, raw := range harness.Must(rdb.LRange(t.Context(), "queue:"+queue, 0, -1).Result())(t) {
		p, err := troupe.ParsePayload([]byte(raw))
		harness.OK(t, err)
		ids = append(ids, p.JID())
	}
	return ids
}

func third[T, U any](_ T, _ U, err error) error { return err }

func second[T any](_ T, err error) error { return err }

func contains(s, part string) bool { return strings.Contains(s, part) }
