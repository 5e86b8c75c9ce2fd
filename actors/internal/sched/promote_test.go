package sched_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestPromoteMovesWhatIsDue(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	s := sched.New(sched.Config{Redis: rdb})
	now := time.Now()
	later := now.Add(time.Hour)
	add(t, rdb, keys.Schedule, now.Add(-time.Minute), job(1, "a"), job(2, "b"), job(3, "a"))
	add(t, rdb, keys.Schedule, later, job(4, "a"))
	add(t, rdb, keys.Retry, now.Add(-time.Minute), job(5, "a"))

	got := drain(t, s, keys.Schedule)
	if got.Moved != 3 || got.Dead != 0 || got.Dropped != 0 {
		t.Fatalf("%+v", got)
	}
	// The score is a double, whose next one is 240 ns away.
	if d := got.Next.Sub(later); d < -250*time.Nanosecond || d > 10*time.Microsecond {
		t.Errorf("next is %v after the first entry", d)
	}
	a := rdb.LRange(ctx, "queue:a", 0, -1).Val()
	if len(a) != 2 || unstamped(t, a[1]) != job(1, "a") || unstamped(t, a[0]) != job(3, "a") {
		t.Errorf("queue a, first out last: %v", a)
	}
	if known := rdb.SMembers(ctx, "queues").Val(); len(known) != 2 {
		t.Errorf("queues: %v", known)
	}
	if n := rdb.ZCard(ctx, "retry").Val(); n != 1 {
		t.Error("the other set was touched")
	}
	if n, err := s.Processes(ctx); err != nil || n != 0 {
		t.Errorf("%d processes, %v", n, err)
	}
	if got := drain(t, s, keys.Retry); got.Moved != 1 || !got.Next.IsZero() {
		t.Errorf("%+v", got)
	}
	if _, err := s.Promote(ctx, "dead"); err == nil {
		t.Error("promoted from the dead set")
	}
}

func TestPromoteEditsOnlyWhatItMust(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	s := sched.New(sched.Config{Redis: rdb, Timestamps: troupe.TimestampsMillis})
	tests := []struct{ name, member, want string }{
		{"number texts and unknown fields", `{"retry":3,"queue":"q","class":"A","args":[1e3,1.10,123456789012345678901234567890],"x":{ "y" : null },"jid":"j","created_at":1.5}`, ""},
		{"not UTF-8", `{"retry":true,"queue":"q","class":"A","args":["` + "\xff\xfe" + `"],"jid":"j","created_at":1}`, ""},
		{"a stored at is dropped", `{"retry":true,"queue":"q","class":"A","args":[],"at":99999999999,"jid":"j","created_at":1}`,
			`{"retry":true,"queue":"q","class":"A","args":[],"jid":"j","created_at":1}`},
		{"even one that is no number", `{"retry":true,"queue":"q","class":"A","args":[],"at":"soon","jid":"j","created_at":1}`,
			`{"retry":true,"queue":"q","class":"A","args":[],"jid":"j","created_at":1}`},
		{"a retry keeps its history", `{"retry":true,"queue":"q","class":"A","args":[],"jid":"j","created_at":1,"enqueued_at":2,"error_message":"é","error_class":"E","failed_at":1.25,"retry_count":0}`,
			`{"retry":true,"queue":"q","class":"A","args":[],"jid":"j","created_at":1,"error_message":"é","error_class":"E","failed_at":1.25,"retry_count":0}`},
		{"args of another client", `{"retry":true,"queue":"q","class":"A","args":{"0":1},"jid":5,"created_at":1,"tags":"a","retry_for":2000000000}`, ""},
		{"no args, no class", `{"retry":true,"queue":"q","jid":"j","created_at":1}`, ""},
		{"retry false stays", `{"queue":"q","class":"A","args":[],"retry":false,"jid":"j","created_at":1}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			add(t, rdb, keys.Retry, time.Now().Add(-time.Second), tt.member)
			if got := drain(t, s, keys.Retry); got.Moved != 1 {
				t.Fatalf("%+v", got)
			}
			want := tt.want
			if want == "" {
				want = tt.member
			}
			if got := unstamped(t, rdb.RPop(ctx, "queue:q").Val()); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Second), `{"class":"A","args":[]}`)
	drain(t, s, keys.Schedule)
	got := parse(t, rdb.RPop(ctx, "queue:default").Val())
	if r, _ := got.Get("retry"); string(r) != "true" || len(got.JID()) != 24 || got.Queue() != "default" {
		t.Errorf("defaults: %s", got.Bytes())
	}
	if at, _ := got.Get("enqueued_at"); len(at) != 13 {
		t.Errorf("milliseconds: %s", at)
	}
}

var bad = []string{
	``, `{`, `nope`, `[1]`, `"x"`, `5`, `null`,
	`{"class":"X","args":[],"queue":""}`, `{"class":"X","args":[],"queue":null}`,
	`{"class":"X","args":[],"queue":{"a":1}}`,
	`{"class":"X","args":[]} ` + "\x00", "\xef\xbb\xbf" + `{"class":"X","args":[]}`, `{"class":"X","args":[NaN]}`,
	`{"class":"X","args":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "\xff\xfe",
}

func TestBadMembersGoToTheDeadSet(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	var log harness.Buffer
	s := sched.New(sched.Config{Redis: rdb, Logger: zerolog.New(&log), DeadMax: 100, DeadTimeout: time.Hour})
	now := time.Now()
	rdb.ZAdd(ctx, "dead", redis.Z{Score: 5, Member: "too old"}, redis.Z{Score: scores.Of(now.Add(-time.Minute)), Member: "kept"})
	add(t, rdb, keys.Schedule, now.Add(-time.Minute), append(slices.Clone(bad), job(1, "q"))...)
	if got := drain(t, s, keys.Schedule); got.Moved != 1 || got.Dead != len(bad) || !got.Next.IsZero() {
		t.Fatalf("%+v, want %d dead", got, len(bad))
	}
	dead := rdb.ZRangeWithScores(ctx, "dead", 0, -1).Val()
	if len(dead) != len(bad)+1 {
		t.Fatalf("%d entries are dead", len(dead))
	}
	var kept []string
	for _, z := range dead {
		member := z.Member.(string)
		if p, err := troupe.ParsePayload([]byte(member)); err == nil && p.Class() == "Troupe::NotAJob" { // JSON that is no object
			var args []string
			if err := json.Unmarshal(p.Args(), &args); err != nil || len(args) != 1 || p.Queue() != "default" {
				t.Errorf("dead: %s", member)
				continue
			}
			if member = args[0]; strings.HasPrefix(member, "{") {
				t.Errorf("an object is kept as %s", z.Member)
			}
			kept = append(kept, member)
		}
		if member != "kept" && (!slices.Contains(bad, member) || math.Abs(z.Score-scores.Of(now)) > 60) {
			t.Errorf("dead at %v: %q", z.Score, z.Member)
		}
	}
	if slices.Sort(kept); !slices.Equal(kept, []string{`"x"`, `5`, `[1]`, `null`}) {
		t.Errorf("kept as jobs: %q", kept)
	}
	if lines := log.Lines(t); len(lines) != len(bad) {
		t.Errorf("%d log lines, want %d", len(lines), len(bad))
	}

	// the trim is Sidekiq's: one fewer than the number says
	var many []string
	for i := range 150 {
		many = append(many, fmt.Sprintf("bad %d", i))
	}
	add(t, rdb, keys.Retry, now.Add(-time.Minute), many...)
	if got := drain(t, s, keys.Retry); got.Dead != 150 || rdb.ZCard(ctx, "dead").Val() != 99 {
		t.Errorf("%+v, %d dead, want 99", got, rdb.ZCard(ctx, "dead").Val())
	}
}

func TestOddScores(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	s := sched.New(sched.Config{Redis: rdb})
	rdb.ZAdd(ctx, "schedule", redis.Z{Score: math.Inf(-1), Member: job(1, "q")}, redis.Z{Score: -1e300, Member: job(2, "q")}, redis.Z{Score: 1e300, Member: job(3, "q")}, redis.Z{Score: math.Inf(1), Member: job(4, "q")})
	got := drain(t, s, keys.Schedule)
	if got.Moved != 2 || got.Next.Before(time.Now().AddDate(200, 0, 0)) {
		t.Errorf("%+v", got)
	}
}

func TestAQueueOfAnotherTypeBlocksNobody(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	var log harness.Buffer
	s := sched.New(sched.Config{Redis: rdb, Logger: zerolog.New(&log), Batch: 10})
	rdb.Set(ctx, "queue:odd", "x", 0)
	var members []string
	for i := range 35 {
		members = append(members, job(i, "odd"))
	}
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Hour), members...)
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Minute), job(100, "good"), job(101, "good"))
	start := time.Now()
	got := drain(t, s, keys.Schedule)
	if got.Moved != 2 || rdb.ZCard(ctx, "schedule").Val() != 35 {
		t.Fatalf("%+v, %d left", got, rdb.ZCard(ctx, "schedule").Val())
	}
	if wait := got.Next.Sub(start); wait < 5*time.Second || wait > time.Minute {
		t.Errorf("the next try is after %v", wait)
	}
	lines := len(log.Lines(t))
	if lines == 0 || lines > 15 { // one a batch; a machine that stands still makes them smaller
		t.Errorf("%d log lines for one broken queue", lines)
	}
	// while they are left alone they neither block nor cost a try
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Second), job(102, "good"))
	rdb.ConfigResetStat(ctx)
	if got := drain(t, s, keys.Schedule); got.Moved != 1 {
		t.Errorf("%+v", got)
	}
	if len(log.Lines(t)) != lines {
		t.Error("reported again")
	}
	rdb.Del(ctx, "queue:odd")
	harness.Equal(t, "moved once the key was gone", drain(t, sched.New(sched.Config{Redis: rdb, Batch: 10}), keys.Schedule).Moved, 35)
}

func TestADeadSetOfAnotherTypeBlocksNobody(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	s := sched.New(sched.Config{Redis: rdb})
	rdb.Set(ctx, "dead", "x", 0)
	rdb.Set(ctx, "queues", "x", 0)
	add(t, rdb, keys.Retry, time.Now().Add(-time.Minute), "bad", job(1, "q"))
	if got := drain(t, s, keys.Retry); got.Moved != 1 || got.Dead != 0 || rdb.ZCard(ctx, "retry").Val() != 1 {
		t.Errorf("%+v", got)
	}
	rdb.Set(ctx, "schedule", "x", 0)
	if _, err := s.Promote(ctx, keys.Schedule); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("got %v", err)
	}
}

func TestMiddlewareRunsOnPromotion(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	var log harness.Buffer
	var mu sync.Mutex
	calls := map[string]int{}
	mw := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			args := string(p.Args())
			mu.Lock()
			calls[args]++
			mu.Unlock()
			switch args {
			case "[1]":
				return nil // stops
			case "[2]":
				return errors.New("tenant is away")
			case "[3]":
				panic("middleware bug")
			case "[4]":
				p.SetString("queue", "other")
			case "[5]":
				p.Set("at", []byte("99999999999"))
			case "[6]":
				p.Delete("class")
			}
			return next(ctx, p)
		}
	}
	c := client.New(rdb, client.WithMiddleware(mw))
	s := sched.New(sched.Config{Redis: rdb, Client: c, Logger: zerolog.New(&log), Batch: 3})
	var members []string
	for i := range 9 {
		members = append(members, job(i, "q"))
	}
	add(t, rdb, keys.Retry, time.Now().Add(-time.Minute), members...)
	start := time.Now()
	got := drain(t, s, keys.Retry)
	if got.Moved != 5 || got.Dropped != 1 || got.Dead != 0 {
		t.Errorf("%+v", got)
	}
	left := rdb.ZRange(ctx, "retry", 0, -1).Val()
	if len(left) != 3 || left[0] != job(2, "q") || left[1] != job(3, "q") || left[2] != job(6, "q") {
		t.Errorf("left %v", left)
	}
	harness.Equal(t, "queues hold", rdb.LLen(ctx, "queue:q").Val()+10*rdb.LLen(ctx, "queue:other").Val(), 14)
	if wait := got.Next.Sub(start); wait < 5*time.Second {
		t.Errorf("the failed ones are tried again after %v", wait)
	}
	if lines := log.Lines(t); len(lines) != 3 || !strings.Contains(fmt.Sprint(lines), "middleware bug") || strings.Contains(fmt.Sprint(lines), "args") {
		t.Errorf("log %v", lines)
	}
	drain(t, s, keys.Retry)
	if (calls["[2]"] != 1 || calls["[3]"] != 1) && time.Since(start) < 5*time.Second {
		t.Errorf("calls %v", calls)
	}
}

func TestMiddlewareThatEndsItsGoroutineBlocksNobody(t *testing.T) {
	rdb, _ := redistest.New(t)
	mw := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			if string(p.Args()) == "[0]" {
				runtime.Goexit()
			}
			return next(ctx, p)
		}
	}
	s := sched.New(sched.Config{Redis: rdb, Client: client.New(rdb, client.WithMiddleware(mw))})
	add(t, rdb, keys.Retry, time.Now().Add(-time.Minute), job(0, "q"), job(1, "q"))
	done := make(chan struct{})
	go func() { defer close(done); _, _ = s.Promote(context.Background(), keys.Retry) }()
	<-done
	if got := drain(t, s, keys.Retry); got.Moved != 1 {
		t.Errorf("%+v", got)
	}
}

func TestTwoSchedulersPromoteEachJobOnce(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	const n = 5000
	var members []string
	for i := range n {
		members = append(members, job(i, "q"))
	}
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Hour), members...)
	var wg sync.WaitGroup
	var mu sync.Mutex
	moved := 0
	for range 3 {
		wg.Go(func() {
			s := sched.New(sched.Config{Redis: rdb})
			for {
				p, err := s.Promote(ctx, keys.Schedule)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				moved += p.Moved
				all := moved >= n
				mu.Unlock()
				if all {
					return
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, raw := range rdb.LRange(ctx, "queue:q", 0, -1).Val() {
		seen[unstamped(t, raw)] = true
	}
	if moved != n || len(seen) != n || rdb.LLen(ctx, "queue:q").Val() != n {
		t.Errorf("%d moved, %d different, %d in the queue", moved, len(seen), rdb.LLen(ctx, "queue:q").Val())
	}
}

// Whatever stands in a set, each member ends in exactly one place, as it was
// but for the fields that a push sets.
func TestEveryMemberEndsInOnePlace(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		rdb.FlushDB(ctx)
		rdb.Set(ctx, "queue:odd", "x", 0)
		s := sched.New(sched.Config{Redis: rdb, Batch: rapid.IntRange(1, 20).Draw(rt, "batch")})
		n := rapid.IntRange(0, 40).Draw(rt, "n")
		want := map[string]string{}
		for i := range n {
			kind := rapid.SampledFrom([]string{"good", "good", "odd", "bad", "future"}).Draw(rt, "kind")
			at := time.Now().Add(-time.Duration(rapid.IntRange(1, 1000).Draw(rt, "age")) * time.Second)
			member := job(i, rapid.SampledFrom([]string{"a", "b", "é"}).Draw(rt, "queue"))
			switch kind {
			case "odd":
				member = job(i, "odd")
			case "bad":
				member = rapid.SampledFrom(bad).Draw(rt, "bad") + strings.Repeat(" ", i) + "x"
			case "future":
				at = time.Now().Add(time.Hour)
			}
			want[member] = kind
			harness.OK(rt, rdb.ZAdd(ctx, "retry", redis.Z{Score: scores.Of(at), Member: member}).Err())
		}
		for {
			p := harness.Must(s.Promote(ctx, keys.Retry))(rt)
			if !p.More {
				break
			}
		}
		got := map[string]string{}
		put := func(member, kind string) {
			if got[member] != "" {
				rt.Fatalf("%q is in two places", member)
			}
			got[member] = kind
		}
		for _, q := range []string{"a", "b", "é"} {
			for _, raw := range rdb.LRange(ctx, "queue:"+q, 0, -1).Val() {
				put(unstamped(t, raw), "good")
			}
		}
		for _, raw := range rdb.ZRange(ctx, "dead", 0, -1).Val() {
			put(raw, "bad")
		}
		for _, z := range rdb.ZRangeWithScores(ctx, "retry", 0, -1).Val() {
			kind := "odd"
			if z.Score > scores.Of(time.Now()) {
				kind = "future"
			}
			put(z.Member.(string), kind)
		}
		if len(got) != len(want) {
			rt.Fatalf("%d members, want %d", len(got), len(want))
		}
		for m, kind := range want {
			if got[m] != kind {
				rt.Fatalf("%q is %s, want %s", m, got[m], kind)
			}
		}
	})
}

func TestHugeMembersTravelInSmallBatches(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	s := sched.New(sched.Config{Redis: rdb})
	big := strings.Repeat("x", 1<<20)
	var members []string
	for i := range 20 {
		members = append(members, fmt.Sprintf(`{"retry":true,"queue":"q","class":"X","args":["%s"],"jid":"%d","created_at":1}`, big, i))
	}
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Minute), members[:3]...)
	drain(t, s, keys.Schedule)
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Minute), members[3:]...)
	p, err := s.Promote(ctx, keys.Schedule)
	if err != nil || p.Moved > 2 || !p.More {
		t.Errorf("%+v, %v", p, err)
	}
	drain(t, s, keys.Schedule)
	harness.Equal(t, "moved", rdb.LLen(ctx, "queue:q").Val(), 20)
}

// What is moved needs no more memory than before: it goes on where Redis refuses
// every push.
func TestAFullRedisPromotes(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	ctx := t.Context()
	add(t, rdb, keys.Retry, time.Now().Add(-time.Minute), job(1, "q"), "bad")
	rdb.ConfigSet(ctx, "maxmemory", "1mb")
	if err := rdb.LPush(ctx, "queue:q", "x").Err(); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("a push said %v", err)
	}
	s := sched.New(sched.Config{Redis: rdb, Identity: "host:1:a"})
	if got := drain(t, s, keys.Retry); got.Moved != 1 || got.Dead != 1 {
		t.Errorf("%+v", got)
	}
	w := startLead(t, rdb, "host:1:a")
	w.elected()
	harness.Check(t, w.stop())
}
