package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	wire "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// heard notes what has run, in order.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (c *heard) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, what)
}

func (c *heard) count(what string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		if one == what {
			n++
		}
	}
	return n
}

func (c *heard) at(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, one := range c.all {
		if one == what {
			return i
		}
	}
	return -1
}

// callback notes that it has run: class Callback, argument its name.
type callback struct{ Name string }

func (callback) Class() string { return "Callback" }

func on(name string) client.Item { return client.Job(callback{name}) }

func callbacks(name string) client.BatchOptions {
	return client.BatchOptions{Name: name, Complete: on(name + " complete"), Success: on(name + " success"), Death: on(name + " death")}
}

// batchRegistry has the class Callback, and Work, whose argument says what it does.
func batchRegistry(c *heard, work func(ctx context.Context, what string, attempt int) error) *troupe.Registry {
	var r troupe.Registry
	troupe.Handle(&r, func(ctx context.Context, job *troupe.Job[callback]) error {
		if info, _ := troupe.JobInfoFrom(ctx); info.CallbackOf == "" {
			return errors.New("it does not know its batch")
		}
		c.add(job.Args.Name)
		return nil
	})
	troupe.HandleClass(&r, "Work", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		var args []string
		if err := troupe.DecodeArgs(p.Args(), &args); err != nil {
			return err
		}
		c.add(args[0])
		return work(ctx, args[0], p.Failures()+1)
	}), troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Exactly(5 * time.Second) }})
	return &r
}

func batchFields(t *testing.T, rdb redis.UniversalClient, id string) map[string]string {
	t.Helper()
	return harness.Must(rdb.HGetAll(t.Context(), "troupe:batch:"+id).Result())(t)
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pushWork(ctx context.Context, c *client.Client, what ...string) error {
	for _, w := range what {
		if _, err := c.PushClass(ctx, "Work", []any{w}); err != nil {
			return err
		}
	}
	return nil
}

// Each job counts once however often it fails; complete comes when all have ended a run, success when all are done.
func TestTheCallbacksOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var c heard
		r := batchRegistry(&c, func(_ context.Context, what string, attempt int) error {
			if what == "flaky" && attempt < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r})
		id, err := client.New(m.Client).Batch(t.Context(), callbacks("b"), func(b *client.Batch) error { return pushWork(t.Context(), b.Client, "a", "b", "flaky") })
		noError(t, err)
		k.Await("complete", func() bool { return c.count("b complete") == 1 })
		harness.Equal(t, "success before its time", c.count("b success"), 0)
		harness.Equal(t, "pending", batchFields(t, m.Client, id)["pending"], "1")
		k.Await("success", func() bool { return c.count("b success") == 1 })
		time.Sleep(time.Hour) // virtual
		harness.Equal(t, "all", fmt.Sprint(c.count("b complete"), c.count("b success"), c.count("b death"), c.count("flaky")), "1 1 0 3")
		ttl := m.Client.TTL(t.Context(), "troupe:batch:"+id).Val()
		if ttl <= 0 || ttl > 24*time.Hour {
			t.Errorf("the batch lives for %v after its success, want a day at most", ttl)
		}
	})
}

// Two dead jobs push death once, and complete, for the batch around theirs, too; retried from the dead set they count, and success follows.
func TestSuccessAfterADeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var c heard
		bad := true
		r := batchRegistry(&c, func(_ context.Context, what string, _ int) error {
			if strings.HasPrefix(what, "dies") && bad {
				return troupe.Kill(errors.New("no"))
			}
			return nil
		})
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r})
		var id string
		_, err := client.New(m.Client).Batch(t.Context(), callbacks("parent"), func(parent *client.Batch) (err error) {
			id, err = parent.Batch(t.Context(), callbacks("b"), func(b *client.Batch) error { return pushWork(t.Context(), b.Client, "a", "dies", "dies, too") })
			return err
		})
		noError(t, err)
		told := func(event string) string { return fmt.Sprint(c.count("b "+event), c.count("parent "+event)) }
		time.Sleep(time.Minute) // virtual
		harness.Equal(t, "deaths, complete and success", told("death")+", "+told("complete")+", "+told("success"), "1 1, 1 1, 0 0")
		harness.Equal(t, "pending", batchFields(t, m.Client, id)["pending"], "2")
		bad = false
		dead := harness.Must(m.Client.ZRange(t.Context(), "dead", 0, -1).Result())(t)
		harness.Equal(t, "dead", len(dead), 2)
		for _, raw := range dead {
			noError(t, m.Client.ZRem(t.Context(), "dead", raw).Err())
			noError(t, m.Client.LPush(t.Context(), "queue:default", raw).Err())
		}
		k.Await("success", func() bool { return told("success") == "1 1" })
		harness.Equal(t, "deaths", told("death"), "1 1")
	})
}

// Three batches, one within the other, whose jobs fail at first: a child ends before its parent, callbacks included.
func TestNestedBatches(t *testing.T) {
	for _, way := range []string{"FromContext", "Within"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := testkit.NewMemory(t)
				var c heard
				r := batchRegistry(&c, func(ctx context.Context, what string, attempt int) error {
					own := client.FromContext(ctx)
					if way == "Within" {
						own = client.Within(ctx)
					}
					if strings.HasPrefix(what, "leaf") && attempt < 2 {
						return errors.New("not yet")
					}
					next := map[string]string{"top": "middle", "middle": "leaf"}[what]
					if next == "" {
						return nil
					}
					_, err := own.Batch(ctx, callbacks(next), func(b *client.Batch) error { return pushWork(ctx, b.Client, next, next+" 2") })
					return err
				})
				k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r})
				top, err := client.New(m.Client).Batch(t.Context(), callbacks("top"), func(b *client.Batch) error { return pushWork(t.Context(), b.Client, "top") })
				noError(t, err)
				k.Await("success", func() bool { return c.count("top success") == 1 })
				time.Sleep(time.Hour) // virtual
				last := -1
				for _, name := range []string{"leaf", "middle", "top"} {
					for _, event := range []string{" complete", " success"} {
						harness.Equal(t, name+event, c.count(name+event), 1)
					}
					harness.Equal(t, name+" death", c.count(name+" death"), 0)
					at := c.at(name + " success")
					if at < last {
						t.Errorf("%s has succeeded before the batch within it: %v", name, c.all)
					}
					last = at
				}
				harness.Equal(t, "children of the top", m.Client.SCard(t.Context(), "troupe:batch:"+top+":children").Val(), 1)
			})
		})
	}
}

// An empty batch ends at once; one that is open ends when it is closed; a job adds to its batch, and after success nobody does.
func TestEmptyOpenAndGrowingBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var c heard
		r := batchRegistry(&c, func(ctx context.Context, what string, _ int) error {
			info, _ := troupe.JobInfoFrom(ctx)
			switch what {
			case "grows":
				return client.FromContext(ctx).GrowBatch(ctx, info.Batch, func(b *client.Batch) error { return pushWork(ctx, b.Client, "grown") })
			case "grown":
				return client.Within(ctx).GrowBatch(ctx, info.Batch, func(b *client.Batch) error { return pushWork(ctx, b.Client, "more") })
			}
			return nil
		})
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r})
		ctx, own := t.Context(), client.New(m.Client)
		none := func(*client.Batch) error { return nil }
		_, err := own.Batch(ctx, callbacks("empty"), none)
		noError(t, err)
		k.Await("the empty one", func() bool { return c.count("empty success") == 1 && c.count("empty complete") == 1 })

		o := callbacks("open")
		o.Open = true
		open, err := own.Batch(ctx, o, none)
		noError(t, err)
		noError(t, own.GrowBatch(ctx, open, func(b *client.Batch) error { return pushWork(ctx, b.Client, "x") }))
		k.Await("its job has run", func() bool { return c.count("x") == 1 && k.Settled() })
		time.Sleep(time.Minute) // virtual
		harness.Equal(t, "success of one that is open", c.count("open success"), 0)
		noError(t, own.CloseBatch(ctx, open))
		k.Await("the open one", func() bool { return c.count("open success") == 1 })

		grows, err := own.Batch(ctx, callbacks("growing"), func(b *client.Batch) error { return pushWork(ctx, b.Client, "grows") })
		noError(t, err)
		k.Await("the growing one", func() bool { return c.count("growing success") == 1 })
		harness.Equal(t, "more", c.count("more"), 1)
		if c.at("growing success") < c.at("more") {
			t.Errorf("it has succeeded before its last job: %v", c.all)
		}
		harness.Equal(t, "total", batchFields(t, m.Client, grows)["total"], "3")
		err = own.GrowBatch(ctx, grows, func(b *client.Batch) error { return pushWork(ctx, b.Client, "late") })
		if err == nil || !strings.Contains(err.Error(), "has succeeded") {
			t.Errorf("a batch that has succeeded grows: %v", err)
		}
		if err := own.CloseBatch(ctx, "none"); err == nil {
			t.Error("a batch that is not there is closed")
		}
		harness.Equal(t, "late", c.count("late"), 0)
	})
}

// A chain is one job of its batch.
func TestAChainInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var c heard
		r := batchRegistry(&c, func(_ context.Context, what string, attempt int) error {
			if what == "second" && attempt < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r})
		link := func(what string) client.Item { return client.Job(work{what}) }
		id, err := client.New(m.Client).Batch(t.Context(), callbacks("b"), func(b *client.Batch) error {
			_, err := b.PushChain(t.Context(), link("first"), link("second"), link("third"))
			return err
		})
		noError(t, err)
		harness.Equal(t, "total", batchFields(t, m.Client, id)["total"], "1")
		k.Await("success", func() bool { return c.count("b success") == 1 })
		if third := c.at("third"); third < 0 || c.at("b complete") < third {
			t.Errorf("it is complete before the chain: %v", c.all)
		}
	})
}

type work struct{ What string }

func (work) Class() string                  { return "Work" }
func (w work) MarshalJSON() ([]byte, error) { return []byte(`"` + w.What + `"`), nil }

// Waiting jobs of a batch that was cancelled are dropped, no callback is pushed, and its parent goes on.
func TestACancelledBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var c heard
		r := batchRegistry(&c, func(context.Context, string, int) error { return nil })
		own := client.New(m.Client)
		ctx := t.Context()
		var child string
		_, err := own.Batch(ctx, callbacks("parent"), func(b *client.Batch) (err error) {
			child, err = b.Batch(ctx, callbacks("child"), func(b *client.Batch) error { return pushWork(ctx, b.Client, "a", "b") })
			return err
		})
		noError(t, err)
		noError(t, own.CancelBatch(ctx, child))
		err = own.GrowBatch(ctx, child, func(b *client.Batch) error { return pushWork(ctx, b.Client, "late") })
		if err == nil || !strings.Contains(err.Error(), "was cancelled") {
			t.Errorf("a batch that was cancelled grows: %v", err)
		}
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r})
		k.Await("the parent has succeeded", func() bool { return c.count("parent success") == 1 })
		k.Await("the queue is empty", func() bool { return m.Client.LLen(ctx, "queue:default").Val() == 0 && k.Settled() })
		time.Sleep(time.Minute) // virtual
		harness.Equal(t, "ran", fmt.Sprint(c.count("a"), c.count("b"), c.count("child success"), c.count("child complete")), "0 0 0 0")
		harness.Equal(t, "pending", batchFields(t, m.Client, child)["pending"], "0")
		if err := own.CancelBatch(ctx, "none"); err == nil {
			t.Error("a batch that is not there is cancelled")
		}
	})
}

// The batches within a batch that is cancelled are cancelled, too, and one that a running job of it adds by Within.
func TestACancelGoesDownwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var c heard
		own, ctx, goOn := client.New(m.Client), t.Context(), make(chan struct{})
		var late string
		r := batchRegistry(&c, func(ctx context.Context, what string, _ int) (err error) {
			if what == "runs" {
				<-goOn
				late, err = client.Within(ctx).Batch(ctx, callbacks("late"), func(b *client.Batch) error {
					_, err := b.PushClass(ctx, "Work", []any{"too late"}, client.In(2*time.Second)) // what the process knows is a second old at most
					return err
				})
			}
			return err
		})
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r, Concurrency: 1})
		ids := map[string]string{}
		var nest func(b *client.Client, names ...string) error
		nest = func(b *client.Client, names ...string) (err error) {
			ids[names[0]], err = b.Batch(ctx, callbacks(names[0]), func(b *client.Batch) error {
				if len(names) > 1 {
					return nest(b.Client, names[1:]...)
				}
				return pushWork(ctx, b.Client, "a", "b")
			})
			return err
		}
		noError(t, pushWork(ctx, own, "other"))
		top, err := own.Batch(ctx, callbacks("top"), func(b *client.Batch) error {
			if err := pushWork(ctx, b.Client, "runs"); err != nil {
				return err
			}
			return nest(b.Client, "middle", "leaf")
		})
		noError(t, err)
		k.Await("a job of it runs", func() bool { return c.count("runs") == 1 })
		noError(t, own.CancelBatch(ctx, top))
		time.Sleep(2 * time.Second) // virtual: what the process knows is a second old at most
		close(goOn)
		k.Await("all is done", func() bool { return m.Client.LLen(ctx, "queue:default").Val() == 0 && k.Settled() })
		time.Sleep(time.Hour) // virtual
		harness.Equal(t, "has run", fmt.Sprint(c.all), "[other runs]")
		ids["top"], ids["late"] = top, late
		for name, id := range ids {
			f := batchFields(t, m.Client, id)
			if f["cancelled"] == "" || f["pending"] != "0" {
				t.Errorf("%s: %v", name, f)
			}
		}
		harness.Equal(t, "cancelled ones that are still told", m.Client.ZCard(ctx, "troupe:batches:cancelled").Val(), 0)
	})
}

// A job that runs twice, as behind a crash, counts once: nothing is pushed early.
func TestAJobOfABatchThatRunsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var c heard
		r := batchRegistry(&c, func(context.Context, string, int) error { return nil })
		ctx := t.Context()
		id, err := client.New(m.Client).Batch(ctx, callbacks("b"), func(b *client.Batch) error {
			if err := pushWork(ctx, b.Client, "twice"); err != nil {
				return err
			}
			_, err := b.PushClass(ctx, "Work", []any{"late"}, client.In(time.Hour))
			return err
		})
		noError(t, err)
		noError(t, m.Client.LPush(ctx, "queue:default", m.Client.LIndex(ctx, "queue:default", 0).Val()).Err())
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r})
		k.Await("it has run twice", func() bool { return c.count("twice") == 2 && k.Settled() })
		time.Sleep(30 * time.Minute) // virtual
		f := batchFields(t, m.Client, id)
		harness.Equal(t, "left and pushed", fmt.Sprintf("%s %s %d", f["pending"], f["unrun"], c.count("b complete")+c.count("b success")), "1 1 0")
		time.Sleep(31 * time.Minute) // virtual
		k.Await("success", func() bool { return c.count("b success") == 1 && c.count("b complete") == 1 })
		harness.Equal(t, "late", c.count("late"), 1)
	})
}

// Redis may fall back to a time before a job entered its batch, while a process has the job and writes it back: the batch knows nothing of it
// and does not end sooner for it.
func TestAJobThatItsBatchHasForgottenIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		ctx := t.Context()
		id, err := client.New(m.Client).Batch(ctx, callbacks("own"), func(b *client.Batch) error { return pushWork(ctx, b.Client, "a") })
		noError(t, err)
		in := wire.InBatch{ID: id, Index: 1} // the one job of the batch is 0
		noError(t, wire.CountBatch(ctx, m.Client, wire.Count{InBatch: in, Event: wire.BatchDone}))
		f := batchFields(t, m.Client, id)
		harness.Equal(t, "pending, unrun, complete, success", fmt.Sprint(f["pending"], f["unrun"], f["complete"], f["success"]), "11")
		in.Index = 0
		noError(t, wire.CountBatch(ctx, m.Client, wire.Count{InBatch: in, Event: wire.BatchDone}))
		if f := batchFields(t, m.Client, id); f["pending"] != "0" || f["success"] == "" {
			t.Errorf("the batch is %v, expected one that has succeeded", f)
		}
	})
}

// A job that runs again when its batch has succeeded makes a batch that has no parent.
func TestABatchOfAJobWhoseBatchHasSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var c heard
		ctx := t.Context()
		r := batchRegistry(&c, func(ctx context.Context, what string, _ int) error {
			if what != "again" {
				return nil
			}
			_, err := client.FromContext(ctx).Batch(ctx, callbacks("late"), func(b *client.Batch) error { return pushWork(ctx, b.Client, "below") })
			return err
		})
		id, err := client.New(m.Client).Batch(ctx, callbacks("own"), func(b *client.Batch) error { return pushWork(ctx, b.Client, "again") })
		noError(t, err)
		noError(t, wire.CountBatch(ctx, m.Client, wire.Count{InBatch: wire.InBatch{ID: id}, Event: wire.BatchDone}))
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r})
		k.Await("all is done", func() bool { return c.count("late success") == 1 && k.Settled() })
		harness.Equal(t, "runs, callbacks", fmt.Sprint(c.count("again"), c.count("below"), c.count("own success")), "1 1 1")
		harness.Equal(t, "total", batchFields(t, m.Client, id)["total"], "1")
	})
}
