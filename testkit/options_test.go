package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// plainJob has no defaults; ownJob and ownWalk have their own.
type (
	plainJob struct{}
	ownJob   struct{}
	ownWalk  struct{}
)

func (plainJob) Class() string { return "Plain" }
func (ownJob) Class() string   { return "Own" }
func (*ownWalk) Class() string { return "Walk" }

var own = troupe.Options{Queue: "critical", Retries: troupe.Times(2), Timeout: time.Minute}

func (ownJob) Defaults() troupe.Options   { return own }
func (*ownWalk) Defaults() troupe.Options { return own }

// A job that always fails runs once more than it has retries. Then it is dead and
// nowhere else, so it does not run again.
func TestHowOftenAJobRunsThatAlwaysFails(t *testing.T) {
	boom := errors.New("boom")
	const never = -1 // not in the dead set
	for name, tt := range map[string]struct {
		job        troupe.Args
		class      string // pushed by its name instead
		push       []client.Option
		client     []client.ClientOption
		handle     []troupe.Options
		maxRetries int
		runs       int
		retry      string // the field
	}{
		"nothing is said":            {job: plainJob{}, maxRetries: 3, runs: 4, retry: "true"},
		"Handle":                     {job: plainJob{}, handle: []troupe.Options{{Retries: troupe.Times(1)}}, maxRetries: 3, runs: 2, retry: "true"},
		"Handle, the last counts":    {job: plainJob{}, handle: []troupe.Options{{Retries: troupe.Times(3)}, {Retries: troupe.Times(1)}}, runs: 2, retry: "true"},
		"Handle: none":               {job: plainJob{}, handle: []troupe.Options{{Retries: troupe.Times(0)}}, runs: 1, retry: "true"},
		"Handle: more than the most": {job: plainJob{}, handle: []troupe.Options{{Retries: troupe.Times(4)}}, maxRetries: 1, runs: 5, retry: "true"},
		"Handle: never":              {job: plainJob{}, handle: []troupe.Options{{Retries: troupe.Never()}}, runs: never, retry: "true"},
		"the type":                   {job: ownJob{}, maxRetries: 1, runs: 3, retry: "2"},
		"an iterable type":           {job: &ownWalk{}, maxRetries: 1, runs: 3, retry: "2"},
		"the type, pushed by name":   {class: "Own", runs: 3, retry: "true"},
		"Handle before the type":     {class: "Own", handle: []troupe.Options{{Retries: troupe.Times(1)}}, runs: 2, retry: "true"},
		"what Ruby takes for true":   {class: "Own", push: []client.Option{client.Set("retry", "yes")}, runs: 3, retry: `"yes"`},
		"null":                       {class: "Own", push: []client.Option{client.Set("retry", nil)}, runs: 3, retry: `null`},
		"the push before the type":   {job: ownJob{}, push: []client.Option{client.Retry(1)}, handle: []troupe.Options{{Retries: troupe.Times(4)}}, runs: 2, retry: "1"},
		"the push: false":            {job: ownJob{}, push: []client.Option{client.Never()}, runs: never, retry: "false"},
		"the type before the client": {job: ownJob{}, client: []client.ClientOption{client.WithDefaults(client.Retry(0))}, runs: 3, retry: "2"},
		"the client before Handle":   {job: plainJob{}, client: []client.ClientOption{client.WithDefaults(client.Retry(1))}, handle: []troupe.Options{{Retries: troupe.Times(4)}}, runs: 2, retry: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var runs, exhausted int
				var attempts, dead []int
				var queues []string
				note := func(next troupe.Handler) troupe.Handler {
					return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
						info, _ := troupe.JobInfoFrom(ctx)
						mu.Lock()
						runs++
						attempts, queues = append(attempts, info.Attempt), append(queues, info.Queue)
						mu.Unlock()
						return next.Perform(ctx, p)
					})
				}
				options := append(slices.Clone(tt.handle), troupe.Options{Exhausted: func(*troupe.Payload, error) bool {
					exhausted++
					return false
				}, RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(time.Second) }})
				var r troupe.Registry
				troupe.Handle(&r, func(context.Context, *troupe.Job[plainJob]) error { return boom }, options...)
				troupe.Handle(&r, func(context.Context, *troupe.Job[ownJob]) error { return boom }, options...)
				troupe.HandleIterable(&r, func(_ context.Context, _ *troupe.Job[*ownWalk], from *int, yield func(int, int) bool) error {
					return troupe.YieldSlice([]int{1}, from, yield)
				}, func(context.Context, *troupe.Job[*ownWalk], int) error { return boom },
					troupe.IterableOptions[*ownWalk]{Options: options[len(options)-1]})
				m := testkit.NewMemory(t)
				testkit.Start(t, actors.Config{
					Redis: m.Client, Registry: &r, MaxRetries: tt.maxRetries, Middleware: []troupe.Middleware{note},
					PollInterval: 15 * time.Second,
					Capsules:     []actors.Capsule{{Concurrency: 1, Queues: fetch.Strict{"critical", "default"}}},
					DeathHandlers: []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, _ error) {
						n, ok := p.Int("retry_count")
						if !ok {
							n = never
						}
						dead = append(dead, int(n))
					}},
				}, testkit.Strict())
				pushes := testkit.Record(t, m.Client)
				c := client.New(m.Client, tt.client...)
				var err error
				if tt.job != nil {
					_, err = c.Push(t.Context(), tt.job, tt.push...)
				} else {
					_, err = c.PushClass(t.Context(), tt.class, nil, tt.push...)
				}
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Minute) // four retries take 2 at most, with jitter and looks every 15 s
				synctest.Wait()

				want, ended := tt.runs, 1
				if tt.runs == never {
					want, ended = 1, 0
				}
				if runs != want || attempts[len(attempts)-1] != want {
					t.Errorf("%d runs, attempts %d, want %d", runs, attempts, want)
				}
				if exhausted != ended || len(dead) != 1 || dead[0] != ended*(want-1)-(1-ended) {
					t.Errorf("Exhausted was asked %d times, deaths with retry_count %d", exhausted, dead)
				}
				if n := m.Client.ZCard(t.Context(), "dead").Val(); n != int64(ended) {
					t.Errorf("%d in dead, want %d", n, ended)
				}
				for jid, places := range chaos.TakeInventory(t, m.Client) {
					if !slices.Equal(places, []string{"dead"}) || ended == 0 {
						t.Errorf("job %s is in %q", jid, places)
					}
				}
				job := pushes.All()[0]
				if retry, _ := job.Get("retry"); string(retry) != tt.retry {
					t.Errorf("the field retry is %s, want %s", retry, tt.retry)
				}
				queue := "critical"
				if _, none := tt.job.(plainJob); none || tt.class != "" { // by name there is no type
					queue = "default"
				}
				if !slices.Equal(queues, slices.Repeat([]string{queue}, want)) {
					t.Errorf("ran from %q, want %s", queues, queue)
				}
			})
		})
	}
}

// The queue of the retries and what becomes of the dead are the class's where the
// payload does not say it.
func TestWhereTheJobsOfAClassGo(t *testing.T) {
	for name, tt := range map[string]struct {
		push   []client.Option
		queues []string
		dead   int64
	}{
		"the class":   {nil, []string{"default", "low", "low"}, 0},
		"the payload": {[]client.Option{client.RetryQueue("default"), client.Dead(true)}, []string{"default", "default", "default"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var queues []string
				var r troupe.Registry
				troupe.HandleClass(&r, "Fails", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
					info, _ := troupe.JobInfoFrom(ctx)
					queues = append(queues, info.Queue)
					return errors.New("boom")
				}), troupe.Options{Retries: troupe.Times(2), RetryQueue: "low", Dead: new(false)})
				k := testkit.Start(t, actors.Config{
					Registry: &r, Capsules: []actors.Capsule{{Concurrency: 1, Queues: fetch.Strict{"default", "low"}}},
				}, testkit.Strict())
				k.PushClass("Fails", nil, tt.push...)
				time.Sleep(15 * time.Minute)
				synctest.Wait()
				harness.EqualList(t, "ran from", queues, tt.queues)
				harness.Equal(t, "in dead", k.Redis.ZCard(t.Context(), "dead").Val(), tt.dead)
			})
		})
	}
}

// The time a run may take is Handle's, else the type's, in the daemon and without it.
func TestTheTimeOfARun(t *testing.T) {
	hangs := func(ctx context.Context, j *troupe.Job[ownJob]) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for name, tt := range map[string]struct {
		opts []troupe.Options
		want time.Duration
	}{
		"the type": {nil, time.Minute},
		"Handle":   {[]troupe.Options{troupe.Timeout(time.Second)}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r troupe.Registry
				troupe.Handle(&r, hangs, tt.opts...)
				begun := time.Now()
				q := testkit.Inline(t, &r, nil)
				if _, err := q.Client.Push(t.Context(), ownJob{}); !errors.Is(err, troupe.ErrJobTimeout) || time.Since(begun) != tt.want {
					t.Errorf("in-line: %v after %v", err, time.Since(begun))
				}
				if job := testkit.RequirePushed[ownJob](t, q); job.Queue != "critical" {
					t.Errorf("pushed to %s", job.Queue)
				}

				k := testkit.Start(t, actors.Config{
					Registry: &r, Capsules: []actors.Capsule{{Concurrency: 1, Queues: fetch.Strict{"critical"}}},
				}, testkit.Strict())
				jid := k.Push(ownJob{})
				var took time.Duration
				k.Subscribe(func(e event.Event) {
					if failed, ok := e.(event.JobFailed); ok && failed.Job.JID == jid && errors.Is(failed.Err, troupe.ErrJobTimeout) {
						took = failed.Elapsed
					}
				})
				time.Sleep(tt.want + time.Second)
				synctest.Wait()
				harness.Equal(t, "in the daemon it failed after", took, tt.want)
			})
		})
	}
	err := testkit.Perform(t, t.Context(), func(ctx context.Context, j *troupe.Job[ownJob]) error {
		if _, limited := ctx.Deadline(); !limited || j.Queue != "critical" {
			return fmt.Errorf("queue %s, limited %t", j.Queue, limited)
		}
		return nil
	}, ownJob{})
	harness.Check(t, err)
}
