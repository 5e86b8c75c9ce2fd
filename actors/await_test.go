package actors_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// answers are what calls of Await have returned, each as a text.
type answers chan string

func (a answers) await(c *client.Client, jid string, d time.Duration) {
	go func() {
		ctx, stop := context.WithTimeout(ctx, d)
		defer stop()
		result, err := c.Await(ctx, jid)
		if err != nil {
			result = []byte(err.Error())
		}
		a <- string(result)
	}()
}

// A waiter outlives an outage of Redis: the job ends while Redis does not answer, and its waiters hear of it, those of another client too.
// They leave no goroutine behind: the bubble would tell.
func TestAwaitWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		end := make(chan struct{})
		troupe.HandleResult(&r, func(_ context.Context, job *troupe.Job[Sum]) (int, error) {
			<-end
			return job.Args.A + job.Args.B, nil
		})
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r})
		jid := harness.Must(k.Client.Push(ctx, Sum{2, 3}))(t)
		rdb := redis.NewClient(mem.Options())
		defer func() { _ = rdb.Close() }()
		got := make(answers, 3)
		for _, c := range []*client.Client{k.Client, client.New(rdb), client.New(rdb)} {
			got.await(c, jid, time.Hour)
		}
		time.Sleep(time.Second)
		mem.Pause()
		time.Sleep(10 * time.Second)
		close(end)
		time.Sleep(10 * time.Second)
		harness.Equal(t, "answers while Redis is away", len(got), 0)
		mem.Resume()
		for range 3 {
			harness.Equal(t, "what a waiter got", <-got, "5")
		}
		k.Await("it is settled", k.Settled)
		time.Sleep(time.Minute) // the connection of the waiters is closed
	})
}

// A job that fails goes on to its next run, and so does its waiter; one that nobody knows of ends the wait with its time; one that
// is deleted says so.
func TestAwaitGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		troupe.HandleClass(&r, "Job", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			harness.Check(t, troupe.SetResult(ctx, p.Failures()))
			if p.Failures() < 2 {
				return errors.New("not yet")
			}
			return nil
		}))
		k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r})
		got := make(answers, 1)
		jid := k.PushClass("Job", nil)
		began := time.Now()
		got.await(k.Client, jid, time.Hour)
		harness.Equal(t, "after two failures", <-got, "2")
		if took := time.Since(began); took < 15*time.Second {
			t.Errorf("it took %v, which is no retry", took)
		}
		got.await(k.Client, "nobody", time.Minute)
		if text := <-got; !strings.Contains(text, "nothing is known of its end: context deadline exceeded") {
			t.Errorf("of a job that there is not: %s", text)
		}
		jid = k.PushClass("Job", nil, client.In(time.Hour), client.KeepResult(time.Hour))
		got.await(k.Client, jid, 2*time.Hour)
		time.Sleep(time.Minute)
		e := harness.Must(inspect.New(mem.Client).ScheduledSet.FindJob(ctx, jid))(t)
		harness.Must(e.Delete(ctx))(t)
		if text := <-got; !strings.Contains(text, "is not done, it is deleted") {
			t.Errorf("of one that is deleted: %s", text)
		}
		time.Sleep(time.Minute)
	})
}

// A job runs on in a process that was fenced, whose result is refused; the waiter gets that of the run that counts.
func TestAwaitOfAFencedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		way := chaos.NewProxy(t, mem.Options())
		began, goOn := make(chan string, 2), map[string]chan struct{}{"fenced": make(chan struct{}), "lives": make(chan struct{})}
		start := func(name string, rdb *redis.Client) *testkit.Kit {
			var r troupe.Registry
			troupe.HandleResult(&r, func(context.Context, *troupe.Job[Sum]) (string, error) {
				began <- name
				<-goOn[name] // whatever its context says
				return name, nil
			})
			return testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Lease: 10 * time.Second})
		}
		cut := start("fenced", way.Client())
		own := client.New(mem.Client)
		jid := harness.Must(own.Push(ctx, Sum{2, 3}))(t)
		got := make(answers, 1)
		got.await(own, jid, time.Hour)
		harness.Equal(t, "who runs it", <-began, "fenced")
		way.Pause()
		k := start("lives", mem.Client)
		harness.Equal(t, "who runs it again", <-began, "lives")
		cut.Expect(testkit.Events[event.Fenced]().Within(time.Minute), way.Resume)
		close(goOn["fenced"])
		cut.Await("the run that was fenced has ended", func() bool { return cut.Stats().Busy == 0 })
		time.Sleep(time.Minute)
		harness.Equal(t, "answers before the run that counts has ended", len(got), 0)
		harness.Equal(t, "kept ends", mem.Client.Exists(ctx, "troupe:result:"+jid).Val(), 0)
		close(goOn["lives"])
		harness.Equal(t, "what the waiter got", <-got, `"lives"`)
		k.Await("it is settled", k.Settled)
		time.Sleep(time.Minute) // the connection of the waiters is closed
	})
}
