package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

// sharing makes a fetcher with a share, which the end of the test closes.
func sharing(t *testing.T, rdb redis.UniversalClient, share int, queues ...string) *reliable {
	t.Helper()
	env := testEnv(rdb, Strict(queues))
	env.Share = share
	f := mustOpen(t, env)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := f.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return f
}

// worker does what a capsule with so many slots does, with jobs that take no time.
func worker(t *testing.T, f *reliable, slots int, ran func(Unit)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		var acks []Unit
		for ctx.Err() == nil {
			units, err := f.Take(context.Background(), slots, acks)
			if err != nil {
				t.Errorf("take: %v", err)
				return
			}
			for _, u := range units {
				ran(u)
			}
			if acks = units; len(units) == 0 {
				_ = f.Wait(ctx, 5*time.Second)
			}
		}
		if _, err := f.Take(context.Background(), 0, acks); err != nil {
			t.Errorf("ack: %v", err)
		}
	})
	return func() { cancel(); all.Wait() }
}

// blockedOn waits until so many connections are blocked in a command on the server.
func blockedOn(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d blocked connections", n), func() bool {
		info, _ := rdb.Info(t.Context(), "clients").Result()
		return strings.Contains(info, fmt.Sprintf("blocked_clients:%d\r\n", n))
	})
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func lap(t *testing.T, rdb *redis.Client, queue string) []string {
	t.Helper()
	out := rdb.LRange(t.Context(), keys.Lap(queue), 0, -1).Val()
	slices.Reverse(out)
	return out
}

// Beside as many peers that block on all queues as the fetcher has a share of, half
// of the jobs are its own; without a share, hardly one. Were it to count as one
// peer per queue and not as one, it would be three quarters.
func TestShareBesideBlockedPeers(t *testing.T) {
	const jobs, peers = 300, 4
	for _, share := range []int{0, peers} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			server := redistest.Start(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 50})
			t.Cleanup(func() { _ = rdb.Close() })
			var ours, theirs atomic.Int64
			ctx, cancel := context.WithCancel(context.Background())
			var all sync.WaitGroup
			defer func() { cancel(); all.Wait() }()
			for range peers {
				all.Go(func() {
					for ctx.Err() == nil {
						if rdb.BRPop(context.Background(), 2*time.Second, "queue:b", "queue:a", "queue:c").Err() == nil {
							theirs.Add(1)
						}
					}
				})
			}
			f := sharing(t, rdb, share, "b", "a", "c")
			defer worker(t, f, peers, func(Unit) { ours.Add(1) })()
			for i := range int64(jobs) {
				blockedOn(t, rdb, peers+3*share) // all in the order in which they were served
				rdb.LPush(ctx, keys.Queue([]string{"a", "b", "c"}[i%3]), "{}")
				eventually(t, "the job is taken", func() bool { return ours.Load()+theirs.Load() == i+1 })
			}
			t.Logf("share %d: %d of %d jobs", share, ours.Load(), jobs)
			if n := ours.Load(); share > 0 && (n < jobs*4/10 || n > jobs*6/10) {
				t.Errorf("%d of %d jobs, expected about a half", n, jobs)
			}
		})
	}
}

// No more wait than there is room for, nobody while a fetcher is full, and a job
// that comes when it is full stays in its queue.
func TestShareWaitsForAsManyAsThereIsRoomFor(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	f := sharing(t, rdb, 4, "a")
	ctx := t.Context()
	wait := func() { // until a job comes
		t.Helper()
		if err := f.Wait(ctx, 30*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	mustTake(t, f, 2) // two slots
	f.laps.mu.Lock()
	f.laps.taking++ // so that no job goes back that is not taken within 5 ms
	f.laps.mu.Unlock()
	done := make(chan struct{})
	go func() { defer close(done); wait() }()
	blockedOn(t, rdb, 2)
	rdb.LPush(ctx, "queue:a", "0")
	<-done
	units := mustTake(t, f, 2)
	done = make(chan struct{})
	go func() { defer close(done); wait() }()
	blockedOn(t, rdb, 1)
	rdb.LPush(ctx, "queue:a", "1")
	<-done
	units = append(units, mustTake(t, f, 1)...)
	if len(units) != 2 {
		t.Fatalf("took %d units", len(units))
	}
	blockedOn(t, rdb, 0)
	rdb.LPush(ctx, "queue:a", "2")
	if got := list(t, rdb, "a"); !slices.Equal(got, []string{"2"}) {
		t.Errorf("queue %q, lap %q: the job was to stay in the queue", got, lap(t, rdb, "a"))
	}
	if got := mustTake(t, f, 2, units...); len(got) != 1 {
		t.Errorf("took %v", got)
	} else {
		mustTake(t, f, 0, got...)
	}
}

// What has come for a fetcher that does not take it goes back to its queue, in
// order: because nobody asks, because it was called away, because the queue was
// paused, because there is less room than jobs.
func TestShareGivesBackWhatItCannotStart(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx := t.Context()
	back := func(want ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("queue %q, and nothing in the lap", want), func() bool {
			return slices.Equal(list(t, rdb, "a"), want) && len(lap(t, rdb, "a")) == 0
		})
	}
	f := sharing(t, rdb, 2, "a")
	mustTake(t, f, 3)

	if err := f.Wait(ctx, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	blockedOn(t, rdb, 2)
	rdb.LPush(ctx, "queue:a", "0", "1")
	back("0", "1")
	mustTake(t, f, 3, mustTake(t, f, 3)...)

	away, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- f.Wait(away, 30*time.Second) }()
	blockedOn(t, rdb, 2)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("called away: %v", err)
	}
	rdb.LPush(ctx, "queue:a", "2", "3")
	blockedOn(t, rdb, 0)
	back("2", "3")

	rdb.SAdd(ctx, keys.Paused, "a")
	rdb.LPush(ctx, keys.Lap("a"), "1") // as a blocked command would that does not know of the pause
	f.laps.mu.Lock()
	f.laps.landed++
	f.laps.mu.Unlock()
	if units := mustTake(t, f, 3); len(units) > 0 {
		t.Errorf("took %v from a paused queue", units)
	}
	back("1", "2", "3")
	rdb.Del(ctx, keys.Paused)

	rdb.Del(ctx, "queue:a")
	rdb.LPush(ctx, keys.Lap("a"), "4", "5", "6")
	f.laps.mu.Lock()
	f.laps.landed += 3
	f.laps.mu.Unlock()
	units := mustTake(t, f, 2)
	if len(units) != 2 || string(units[0].Payload) != "4" || string(units[1].Payload) != "5" {
		t.Errorf("took %v", units)
	}
	back("6")
	mustTake(t, f, 0, units...)
}

// blocked starts a fetcher with a share that waits for jobs of queue a, on a server
// of its own.
func blocked(t *testing.T) (*redis.Client, *reliable) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	f := sharing(t, rdb, 1, "a")
	mustTake(t, f, 2)
	go func() { _ = f.Wait(t.Context(), time.Minute) }()
	blockedOn(t, rdb, 1)
	return rdb, f
}

// Where the server does not let a fetcher end its commands, what they get while
// it is full goes back at once.
func TestShareThatCannotEndItsCommands(t *testing.T) {
	rdb, f := blocked(t)
	ctx := t.Context()
	f.laps.mu.Lock()
	f.laps.mute = true
	f.laps.taking++ // so that the 5 ms do not begin
	f.laps.want(0)
	f.laps.mu.Unlock()
	rdb.LPush(ctx, "queue:a", "0")
	eventually(t, "the job is back", func() bool { return slices.Equal(list(t, rdb, "a"), []string{"0"}) })
	rdb.Del(ctx, "queue:a")
}

// A close that does not live to see the end of a command puts back what it may have
// got, though nobody has heard of a job.
func TestShareClosedWithoutAnAnswer(t *testing.T) {
	rdb, f := blocked(t)
	ctx := t.Context()
	f.laps.mu.Lock()
	f.laps.sitters[0].lines[0].id = 0 // so that it cannot be ended
	f.laps.mu.Unlock()
	rdb.LPush(ctx, keys.Lap("a"), "0") // as by a command whose reply is on its way
	if _, err := f.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got := list(t, rdb, "a"); !slices.Equal(got, []string{"0"}) || len(lap(t, rdb, "a")) > 0 {
		t.Errorf("queue %q, lap %q: the job was to be back in the queue", got, lap(t, rdb, "a"))
	}
}

// The first take of a fetcher with a share is as good as any: Redis does not have to
// refuse it first.
func TestShareTakesAtOnce(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := sharing(t, rdb, 1, "a")
	rdb.LPush(t.Context(), "queue:a", "0")
	mustTake(t, f, 0, mustTake(t, f, 1)...)
	if f.generation != 1 {
		t.Errorf("generation %d: the first take was repeated", f.generation)
	}
}

// Laps come before their queues, within the order of the queues.
func TestShareTakesLapsFirst(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	f := sharing(t, rdb, 1, "a", "b")
	rdb.LPush(ctx, keys.Lap("b"), "b0")
	rdb.LPush(ctx, "queue:b", "b1")
	rdb.LPush(ctx, keys.Lap("a"), "a0", "a1")
	rdb.LPush(ctx, "queue:a", "a2")
	var got []string
	for range 3 {
		units := mustTake(t, f, 2)
		for _, u := range units {
			if got = append(got, string(u.Payload)); u.Queue != string(u.Payload[:1]) || u.Suspect {
				t.Errorf("unit %+v", u)
			}
		}
		mustTake(t, f, 0, units...)
	}
	if want := []string{"a0", "a1", "a2", "b0", "b1"}; !slices.Equal(got, want) {
		t.Errorf("took %q, want %q", got, want)
	}
}
