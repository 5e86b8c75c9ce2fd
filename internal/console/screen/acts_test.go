package screen_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

func page(name string) screen.Page { return screen.Page{Name: name} }

// Capitals act on the row under the cursor, after a yes.
func TestActs(t *testing.T) {
	rdb, url := redistest.New(t)
	ruby(t, url)
	processes(t, rdb)
	ctx := t.Context()
	did := make(chan string, 100)
	s := show(t, 80, 24, screen.Options{Source: source(rdb), Page: page("retry"), Did: func(_ context.Context, what string, on screen.Page, said string, err error) string {
		did <- fmt.Sprint(what, on, said, err)
		if strings.HasPrefix(what, "retry 支払い") {
			return "(heard)"
		}
		return ""
	}})
	s.Await("> 1h ago")
	s.Type("R")
	s.Await("retry 支払いワーカー r2 of the set retry? y or n")
	s.Type("n")
	s.Await("nothing was done")
	harness.Equal(t, "in retry after a no", rdb.ZCard(ctx, "retry").Val(), 2)
	s.Type("Ry")
	s.Await("retried (heard): retry 支払いワーカー r2")
	if got := <-did; got != "retry 支払いワーカー r2 of the set retry:explain r2retried<nil>" || len(did) > 0 {
		t.Errorf("told %q", got)
	}
	s.Await("> in 1h")
	harness.Equal(t, "in the queue", rdb.LLen(ctx, "queue:default").Val(), 2)
	s.Type("Ky")
	s.Await("killed: kill Pay r1")
	s.Await("nothing here")

	// what somebody else has taken meanwhile is gone
	s.visit(":dead")
	s.Type(".") // the screen looks no more
	s.Await("paused")
	entries := harness.Must(rdb.ZRange(ctx, "dead", 0, -1).Result())(t)
	for _, e := range entries {
		if strings.Contains(e, `"r1"`) {
			rdb.ZRem(ctx, "dead", e)
		}
	}
	s.Type("D")
	s.Await("delete Pay r1 of the set dead? y or n")
	s.Type("y")
	s.Await("gone: delete Pay r1 of the set dead")
	harness.Equal(t, "are dead", rdb.ZCard(ctx, "dead").Val(), 2)
	s.Type(".")
	s.Await("1/2")
	s.Type("G")
	s.Await("> 2d ago")
	s.Type("Ry") // bytes that are no job
	s.Await("retry an entry: invalid payload")
	s.Type("K")
	s.Await("K does nothing here")
	s.Type("Dy")
	s.Await("deleted: delete an entry that is no job of the set dead")
	s.Await("1/1")

	s.visit(":queue low")
	s.Type("jDy")
	s.Await("deleted: delete Resize q2 of the queue low")
	s.gone(t, "q2   ")
	s.visit(":queues")
	s.Type("Py")
	s.Await("done: pause the queue low")
	s.Await("paused")
	if !rdb.SIsMember(ctx, "paused", "low").Val() {
		t.Error("the queue is not paused")
	}
	s.Type("Py")
	s.Await("done: unpause the queue low")
	if rdb.SIsMember(ctx, "paused", "low").Val() {
		t.Error("the queue is paused")
	}

	s.Type(":processes\r/ruby\r")
	s.Await("> ruby:1:aa")
	s.Type("Sy")
	s.Await("told: stop ruby:1:aa")
	if signals := rdb.LRange(ctx, "ruby:1:aa-signals", 0, -1).Val(); len(signals) != 1 || signals[0] != "TERM" {
		t.Errorf("signals: %q", signals)
	}
}

// With --read-only nothing is changed, and no process is asked for anything.
func TestReadOnly(t *testing.T) {
	rdb, url := redistest.New(t)
	ruby(t, url)
	processes(t, rdb)
	look := source(rdb)
	if _, err := look.Processes(t.Context()); err != nil { // takes those that have died off Sidekiq's list
		t.Fatal(err)
	}
	before := contents(t, rdb)
	look.ReadOnly = true
	s := show(t, 120, 24, screen.Options{Source: look, Page: page("retry"), ReadOnly: true})
	for at, keys := range map[string]string{":retry": "RKD", ":dead": "RD", ":queues": "P", ":processes": "QS", ":running": "C", ":queue low": "D"} {
		s.visit(at)
		for _, key := range keys {
			s.Type(string(key))
			s.Await("refused by --read-only: ")
			s.Type("y") // asks for nothing
		}
	}
	if after := contents(t, rdb); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// contents is all that is in a database.
func contents(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	names := harness.Must(rdb.Keys(t.Context(), "*").Result())(t)
	var all []string
	for _, name := range names {
		all = append(all, name+" "+rdb.Dump(t.Context(), name).Val())
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// A job that runs in a live daemon is cancelled, and its process quieted.
func TestALiveDaemon(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	troupe.HandleClass(&r, "Waits", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Concurrency: 2})
	harness.Must(client.New(rdb).PushClass(t.Context(), "Waits", nil))(t)
	s := show(t, 80, 24, screen.Options{Source: source(rdb), Page: page("processes")})
	s.Await("1/2") // published at once, not with the next beat
	s.Type("\r")
	s.Await("busy Waits")
	s.visit(":running")
	s.Type("\r")
	s.Await("It runs in " + k.Daemon.Identity())
	s.Type("C")
	s.Await("cancel Waits")
	s.Type("y")
	s.Await("cancelled in")
	k.Await("the job is retried", func() bool { return rdb.ZCard(t.Context(), "retry").Val() == 1 })
	s.visit(":processes")
	s.Type("Qy")
	s.Await("told: quiet")
	s.Await("quiet  ")
	s.visit(":events")
}
