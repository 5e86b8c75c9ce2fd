package fetch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// 8,100 queues are more than one call of a script may name: takes, suspects, waits,
// settling and the end work, and every queue is reached.
func TestVeryManyQueues(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	names := make([]string, 8100)
	for i := range names {
		names[i] = fmt.Sprint("queue number ", i)
	}
	for name, queues := range map[string]Queues{"strict": Strict(names), "weighted": func() Queues {
		w := make(Weighted)
		for i, name := range names {
			w[name] = 1 + i%3
		}
		return w
	}()} {
		t.Run(name, func(t *testing.T) {
			env := testEnv(rdb, queues)
			env.Identity = "h:1:" + name
			f := mustOpen(t, env)
			if units := mustTake(t, f, 10); len(units) != 0 {
				t.Errorf("took %v", units)
			}
			for _, i := range []int{0, 1, 4000, 8098, 8099} {
				rdb.LPush(ctx, keys.Queue(names[i]), fmt.Sprint(i))
			}
			harness.Check(t, f.Wait(ctx, 100*time.Millisecond))
			var units []Unit
			for len(units) < 5 {
				more := mustTake(t, f, 10)
				if units = append(units, more...); len(more) == 0 {
					break
				}
			}
			if len(units) != 5 {
				t.Fatalf("took %q", payloads(units))
			}
			rdb.LPush(ctx, keys.Queue(keys.Suspects(names[8099])), "suspect")
			if waiting, err := f.Suspects(ctx); err != nil || !waiting {
				t.Errorf("suspects wait: %v, %v", waiting, err)
			}
			if u := mustTakeSuspect(t, f); u == nil || string(u.Payload) != "suspect" {
				t.Errorf("took suspect %v", u)
			} else {
				mustTake(t, f, 0, *u)
			}
			harness.Await(t, "no wait is open, which would get what goes back", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return !slices.ContainsFunc(f.cur.waiters, func(w *waiter) bool { return w.open })
			})
			settleAll(t, f, Move{Unit: units[0], To: ToRetry, Score: 1}, Move{Unit: units[1], To: ToQueue})
			expire(t, rdb, f.cur.id)
			if done := mustRescue(t, testRescuer(t, rdb).Rescue); done.Units != 3 {
				t.Errorf("rescued %+v", done.Units)
			}
			if err := f.Renew(ctx); !errors.As(err, new(*FencedError)) {
				t.Errorf("renew: %v", err)
			}
			for range 2 {
				mustTake(t, f, 0, mustTake(t, f, 10)...)
			}
			if left, err := f.Close(ctx); left != 0 || err != nil {
				t.Errorf("close: %d, %v", left, err)
			}
			noClaims(t, rdb)
		})
	}
}

// Nobody scans the keyspace, not at the start, not while working or rescuing, not at the end,
// but for the search for lists that no index names, once in ten minutes.
func TestNobodyScans(t *testing.T) {
	rdb, _ := ownServer(t)
	ctx := t.Context()
	before := rdb.Info(ctx, "commandstats").Val()
	f := mustOpen(t, testEnv(rdb, Strict{"a", "b"}))
	fillQueue(t, rdb, "a", 100)
	units := mustTake(t, f, 100)
	settleAll(t, f, Move{Unit: units[0], To: ToRetry, Score: 1})
	harness.OK(t, f.Wait(ctx, 20*time.Millisecond))
	harness.OK(t, f.Renew(ctx))
	die(t, rdb, "h:2:bb", 3, "c")
	r := testRescuer(t, rdb, func(c *rescue.Config) {
		c.Policy = policyFunc(func(rescue.Orphan) rescue.Decision { return rescue.Decision{} })
	})
	for range 3 {
		mustRescue(t, r.Rescue)
		r.Looked(time.Time{}) // as after ten minutes
	}
	mustTake(t, f, 0, units...)
	harness.Must(f.Close(ctx))(t)
	after := rdb.Info(ctx, "commandstats").Val()
	for _, command := range []string{"scan", "keys", "randomkey", "dbsize", "hscan", "sscan", "zscan"} {
		n := calls(after, command) - calls(before, command)
		if command == "scan" {
			n-- // a thousand keys at once
		}
		if n > 0 {
			t.Errorf("%s was called %d times too often", strings.ToUpper(command), n)
		}
	}
}

// A server that knows no script, loads its data, is a replica, or is busy with a script of
// somebody else: the error is told, nothing is lost or done twice, and it goes on.
func TestAnswersThatAreNoRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, rdb *redis.Client) (restore func())
		errs  []string // nil: none is seen
	}{
		"NOSCRIPT": {spoil: func(t *testing.T, rdb *redis.Client) func() {
			rdb.ScriptFlush(t.Context())
			return func() {}
		}},
		"READONLY": {errs: []string{"READONLY"}, spoil: func(t *testing.T, rdb *redis.Client) func() {
			rdb.ConfigSet(t.Context(), "replica-read-only", "yes")
			rdb.Do(t.Context(), "replicaof", "127.0.0.1", "1")
			return func() { rdb.Do(t.Context(), "replicaof", "no", "one") }
		}},
		"BUSY": {errs: []string{"BUSY"}, spoil: func(t *testing.T, rdb *redis.Client) func() {
			rdb.ConfigSet(t.Context(), "busy-reply-threshold", "5")
			rdb.ConfigSet(t.Context(), "lua-time-limit", "5")
			busy := redis.NewClient(rdb.Options())
			go func() {
				busy.Eval(t.Context(), "while true do end", nil)
				_ = busy.Close()
			}()
			harness.Await(t, "it is busy", func() bool { return redis.HasErrorPrefix(rdb.Get(t.Context(), "x").Err(), "BUSY") })
			return func() { rdb.ScriptKill(t.Context()) }
		}},
		"MASTERDOWN": {errs: []string{"MASTERDOWN", "READONLY"}, spoil: func(t *testing.T, rdb *redis.Client) func() {
			rdb.ConfigSet(t.Context(), "replica-serve-stale-data", "no")
			rdb.Do(t.Context(), "replicaof", "127.0.0.1", "1")
			return func() { rdb.Do(t.Context(), "replicaof", "no", "one") }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := ownServer(t)
			ctx := t.Context()
			env := testEnv(rdb, Strict{"a"})
			f := mustOpen(t, env)
			fillQueue(t, rdb, "a", 9)
			units := mustTake(t, f, 6)
			restore := c.spoil(t, rdb)
			moves := []Move{{Unit: units[0], To: ToRetry, Score: 1}, {Unit: units[1], To: ToQueue}}
			for range 3 {
				_, takeErr := f.Take(ctx, 0, units[2:4])
				_, settleErr := f.Settle(ctx, moves)
				waitErr := f.Wait(ctx, 30*time.Millisecond)
				for call, err := range map[string]error{"take": takeErr, "settle": settleErr, "renew": f.Renew(ctx)} {
					told := err != nil && slices.ContainsFunc(c.errs, func(s string) bool { return strings.Contains(err.Error(), s) })
					if told != (c.errs != nil) || err != nil && !told {
						t.Errorf("%s: %v", call, err)
					}
				}
				if waitErr != nil && c.errs == nil {
					t.Errorf("wait: %v", waitErr)
				}
			}
			restore()
			harness.Await(t, "it goes on", func() bool { return f.Renew(ctx) == nil })
			settleAll(t, f, moves...)
			mustTake(t, f, 0, units[2:]...)
			var got []string
			harness.Await(t, "the rest comes", func() bool {
				more, err := f.Take(ctx, 5, nil)
				got = append(got, payloads(more)...)
				_, ackErr := f.Take(ctx, 0, more)
				_ = f.Wait(ctx, 20*time.Millisecond)
				return err == nil && ackErr == nil && len(got) >= 4
			})
			if slices.Sort(got); !slices.Equal(got, []string{"1", "6", "7", "8"}) {
				t.Errorf("then took %q", got)
			}
			harness.Equal(t, "retries", rdb.ZCard(ctx, keys.Retry).Val(), 1)
			if left, err := f.Close(ctx); left != 0 || err != nil {
				t.Errorf("close: %d, %v", left, err)
			}
			noClaims(t, rdb)
		})
	}
}

// The rule that suffices for a fetcher and a rescuer, and no more.
func TestAUserOfFewRights(t *testing.T) {
	rdb, _ := ownServer(t)
	ctx := t.Context()
	rule := []any{
		"acl", "setuser", "few", "reset", "on", ">pw",
		"~queue:*", "~queues", "~retry", "~schedule", "~dead", "~paused", "~troupe:*",
		"+eval", "+evalsha", "+blmove", "+lrange", "+llen", "+hget", "+hkeys", "+hdel", "+pttl", "+zrem", "+zscore", "+get", "+del",
		"+exists", "+smembers", "+zadd", "+zcount", "+zrange", "+zrangebyscore", "+zcard", "+zremrangebyscore", "+zremrangebyrank", "+set", "+time", "+type",
		"+hset", "+hsetnx", "+hgetall", "+hlen", "+hmget", "+hincrby", "+lpush", "+rpush", "+rpop", "+lrem", "+lpos", "+lindex", "+ltrim", "+lmove",
		"+sadd", "+sismember", "+expire", "+pexpire", "+persist",
	}
	harness.OK(t, rdb.Do(ctx, rule...).Err())
	few := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, Username: "few", Password: "pw", MaxRetries: -1})
	defer func() { _ = few.Close() }()
	env := testEnv(few, Strict{"a", "b"})
	f := mustOpen(t, env)
	fillQueue(t, rdb, "a", 70)
	units := mustTake(t, f, 70)
	settleAll(t, f, allMoves(units)...)
	mustTake(t, f, 0, units[5:60]...)
	harness.OK(t, f.Renew(ctx))
	if _, err := f.Suspects(ctx); err != nil {
		t.Error(err)
	}
	mustTake(t, f, 0, mustTake(t, f, 5)...)
	time.AfterFunc(50*time.Millisecond, func() { rdb.LPush(ctx, "queue:b", "b0") })
	mustTake(t, f, 0, waitFor(t, f, 1)...)
	dead := die(t, rdb, "h:2:bb", 3, "c")
	r, err := rescue.New(rescue.Config{Redis: few, Logger: zerolog.Nop(), Policy: policyFunc(func(rescue.Orphan) rescue.Decision { return rescue.Decision{To: job.ToDead} })})
	harness.OK(t, err)
	if done, err := r.Rescue(ctx); err != nil || done.Units != 3 || done.Details[0].ID != dead.cur.id {
		t.Errorf("rescued %+v: %v", done, err)
	}
	mustTake(t, f, 0, units...)
	if left, err := f.Close(ctx); left != 0 || err != nil {
		t.Errorf("close: %d, %v", left, err)
	}
	if denied := rdb.Do(ctx, "acl", "log").Val().([]any); len(denied) > 0 {
		var what []string
		for _, d := range denied {
			what = append(what, fmt.Sprint(d))
		}
		t.Logf("denied, and done without: %.300s", strings.Join(what, "; "))
	}
}
