package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

func TestCancelEndsAJobWhereverItIs(t *testing.T) {
	i, rdb, _ := start(t)
	ctx := t.Context()
	rdb.SAdd(ctx, "queues", "low", "high")
	for n, jid := range []string{"other", "waits", "begun"} {
		rdb.LPush(ctx, "queue:low", fmt.Sprintf(`{"class":"A","args":[%d],"jid":"%s","queue":"low"}`, n, jid))
	}
	rdb.HSet(ctx, "it-begun", "ex", 1, "c", "7")
	rdb.ZAdd(ctx, "schedule", redis.Z{Score: 5e9, Member: `{"class":"A","args":[],"jid":"later","queue":"low"}`})
	rdb.ZAdd(ctx, "retry", redis.Z{Score: 5e9, Member: `{"class":"A","args":[],"jid":"failed","queue":"low","retry_count":0}`})
	rdb.ZAdd(ctx, "dead", redis.Z{Score: 1e9, Member: `{"class":"A","args":[],"jid":"given-up","queue":"low","retry_count":25}`})

	for _, want := range []struct {
		jid, words string
		is         inspect.Cancelled
	}{
		{"waits", "it waited in the queue low and is deleted", inspect.Cancelled{Place: inspect.Queued, Queue: "low", Deleted: true}},
		{"later", "it was scheduled and is deleted", inspect.Cancelled{Place: inspect.Scheduled, Deleted: true}},
		{"failed", "it was to be retried and is deleted", inspect.Cancelled{Place: inspect.Retrying, Deleted: true}},
		{"begun", "it waited in the queue low and is asked to end: it is an iterable job that has begun, and ends when it runs next", inspect.Cancelled{Place: inspect.Queued, Queue: "low"}},
	} {
		if got, err := i.Cancel(ctx, want.jid); err != nil || got != want.is || got.String() != want.words {
			t.Errorf("%s: %q, %+v, %v", want.jid, got, got, err)
		}
	}
	if low, sets := rdb.LLen(ctx, "queue:low").Val(), rdb.ZCard(ctx, "schedule").Val()+rdb.ZCard(ctx, "retry").Val(); low != 2 || sets != 0 {
		t.Errorf("%d jobs in the queue, %d in sets", low, sets)
	}
	if rdb.HGet(ctx, "it-begun", "cancelled").Val() == "" {
		t.Error("the iterable job is not asked to end")
	}
	for jid, words := range map[string]string{
		"waits":    "no process runs the job waits: not found",
		"given-up": "the job given-up is dead, and does not run again by itself: not found",
	} {
		if _, err := i.Cancel(ctx, jid); !errors.Is(err, inspect.ErrNotFound) || err.Error() != words {
			t.Errorf("%s: %v", jid, err)
		}
	}
	if n := rdb.ZCard(ctx, "dead").Val(); n != 1 {
		t.Errorf("%d dead", n)
	}
}

// It is known of a running job in which process it runs.
func TestCancelOfAJobThatAProcessHas(t *testing.T) {
	rdb, _ := redistest.New(t)
	ends := make(chan error, 1)
	var r troupe.Registry
	troupe.HandleClass(&r, "Waits", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		<-ctx.Done()
		ends <- context.Cause(ctx)
		return nil
	}))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Concurrency: 1, Timeout: time.Second})
	jid := k.PushClass("Waits", nil)
	testkit.Await(t, "it runs", func() bool { return k.Stats().Busy == 1 })
	got, err := inspect.New(rdb).Cancel(t.Context(), jid)
	if want := (inspect.Cancelled{Place: inspect.Running, Process: k.Identity()}); err != nil || got != want {
		t.Errorf("running: %+v, %v", got, err)
	}
	if cause := <-ends; !errors.Is(cause, troupe.ErrCancelled) {
		t.Errorf("its context ended by %v", cause)
	}
}

// A job that a process has fetched and neither runs nor has waiting is looked for again, until its process is
// known to be gone.
func TestCancelOfAJobThatIsFetched(t *testing.T) {
	i, rdb, _ := start(t)
	ctx := t.Context()
	const id = "go:1:abc"
	f := fetcher(t, rdb, id)
	rdb.SAdd(ctx, "queues", "a")
	taken := func(jid string) fetch.Unit {
		rdb.LPush(ctx, "queue:a", `{"class":"A","args":[],"jid":"`+jid+`","queue":"a"}`)
		return harness.Must(f.Take(ctx, 1, nil))(t)[0]
	}

	back := taken("goes-back")
	go func() {
		time.Sleep(200 * time.Millisecond) // the first look finds it in progress
		_, _ = f.Settle(ctx, []fetch.Move{{Unit: back, To: fetch.ToQueue}})
	}()
	got, err := i.Cancel(ctx, "goes-back")
	if want := (inspect.Cancelled{Place: inspect.Queued, Queue: "a", Deleted: true}); err != nil || got != want {
		t.Errorf("given back meanwhile: %+v, %v", got, err)
	}

	taken("walks")
	rdb.HSet(ctx, "it-walks", "ex", 1)
	got, err = i.Cancel(ctx, "walks")
	if want := (inspect.Cancelled{Place: inspect.Fetched, Process: id}); err != nil || got != want || !strings.Contains(got.String(), "ends when it runs next") {
		t.Errorf("an iterable job: %q, %+v, %v", got, got, err)
	}

	taken("stays")
	short, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	var refused *inspect.RefusedError
	if _, err := i.Cancel(short, "stays"); !errors.As(err, &refused) || refused.Process != id || !strings.Contains(err.Error(), "cancel it again") {
		t.Errorf("in hand: %v", err)
	}
	// Its process is on the list, and says nothing.
	rdb.SAdd(ctx, "processes", id)
	rdb.HSet(ctx, id, "info", `{"hostname":"go","pid":1,"identity":"`+id+`","concurrency":5}`, "busy", 0, "beat", time.Now().Unix(), "quiet", "false")
	rdb.ZAdd(ctx, "troupe:pulses", redis.Z{Score: float64(time.Now().Unix()), Member: id})
	rdb.Set(ctx, "troupe:pulse:"+id, `{}`, time.Minute)
	short, stop = context.WithTimeout(ctx, time.Second)
	defer stop()
	if _, err := i.Cancel(short, "stays"); !errors.Is(err, inspect.ErrNoReply) || !strings.Contains(err.Error(), id+" has the job stays and does not answer") {
		t.Errorf("of a process that does not answer: %v", err)
	}
	rdb.Del(ctx, "processes")
	rdb.Del(ctx, keys.CommonOf(all(t, i.Claims(ctx))[0].Fetcher.ID, false).Lease)
	if _, err := i.Cancel(ctx, "stays"); !errors.As(err, &refused) || refused.Process != id || !strings.Contains(err.Error(), "goes back to the queue within a minute") {
		t.Errorf("of a process that is dead: %v", err)
	}
	if left := lists(t, i); len(left) != 2 {
		t.Errorf("in progress: %q", left)
	}
}

// In a process of Ruby only iterable jobs can be cancelled.
func TestCancelOfJobsThatRunInRuby(t *testing.T) {
	i, rdb, _ := start(t)
	ctx := t.Context()
	const id = "ruby:1:abc"
	rdb.SAdd(ctx, "processes", id)
	rdb.HSet(ctx, id, "info", `{"hostname":"ruby","pid":1,"identity":"ruby:1:abc","concurrency":5}`, "busy", 2, "beat", time.Now().Unix(), "quiet", "false")
	for _, jid := range []string{"plain", "walks"} {
		rdb.HSet(ctx, id+":work", "t"+jid, `{"queue":"default","run_at":1795000000,"payload":"{\"class\":\"A\",\"args\":[],\"jid\":\"`+jid+`\"}"}`)
	}
	rdb.HSet(ctx, "it-walks", "ex", 1)
	var refused *inspect.RefusedError
	if _, err := i.Cancel(ctx, "plain"); !errors.As(err, &refused) || refused.Process != id {
		t.Errorf("a plain job: %v", err)
	}
	if process, err := i.CancelRunning(ctx, "walks"); err != nil || process != id {
		t.Errorf("an iterable job: %s, %v", process, err)
	}
	if rdb.HGet(ctx, "it-walks", "cancelled").Val() == "" {
		t.Error("the iterable job is not told")
	}
	if _, err := i.CancelRunning(ctx, "nobody"); !errors.Is(err, inspect.ErrNotFound) {
		t.Errorf("no job: %v", err)
	}
}

func ExampleInspector_Cancel() {
	mr, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer mr.Close()
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()
	jid, err := client.New(rdb).PushClass(ctx, "Report", nil, client.In(time.Hour))
	if err != nil {
		panic(err)
	}

	i := inspect.New(rdb)
	found, err := i.Cancel(ctx, jid)
	fmt.Println(found, err)
	_, err = i.Cancel(ctx, jid)
	fmt.Println("once more:", errors.Is(err, inspect.ErrNotFound))
	// Output:
	// it was scheduled and is deleted <nil>
	// once more: true
}
