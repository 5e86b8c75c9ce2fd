package laravel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/wire/goworkers"
	"github.com/troupehq/troupe/wire/laravel"
)

// Three capsules of three wires run in one tree with one registry, and a handler of one pushes
// into another.
func TestThreeWiresInOneTree(t *testing.T) {
	rdb := testkit.Redis(t)
	w := harness.Must(laravel.New(laravel.Options{Prefix: "laravel_database_"}))(t)
	php, gow, rails := laravel.NewClient(rdb, "laravel_database_"), goworkers.NewClient(rdb, "app"), client.New(rdb)
	var r troupe.Registry
	var mu sync.Mutex
	var ran []string
	handle := func(class string, next func(ctx context.Context, n int) error) {
		troupe.HandleClass(&r, class, troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			var args []int
			if err := json.Unmarshal(p.Args(), &args); err != nil || len(args) != 1 {
				return fmt.Errorf("args %s", p.Args())
			}
			mu.Lock()
			ran = append(ran, fmt.Sprint(class, " ", args[0]))
			mu.Unlock()
			return next(ctx, args[0]+1)
		}))
	}
	handle("Rails", func(ctx context.Context, n int) error {
		_, err := php.Push(ctx, laravel.Job{Queue: "php", Name: "Laravel", Data: n})
		return err
	})
	handle("Laravel", func(ctx context.Context, n int) error {
		_, err := gow.Push(ctx, goworkers.Job{Queue: "go", Class: "GoWorkers", Args: []int{n}})
		return err
	})
	handle("GoWorkers", func(context.Context, int) error { return nil })
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{
		{Name: "rails"},
		{Name: "php", Wire: w, Queues: actors.Strict{"php"}},
		{Name: "go", Wire: goworkers.New(goworkers.Options{Namespace: "app"}), Queues: actors.Strict{"go"}},
	}})
	harness.Must(rails.PushClass(t.Context(), "Rails", []any{1}))(t)
	k.Await("a job of each", func() bool { return k.Stats().Processed == 3 })
	if got := strings.Join(ran, ", "); got != "Rails 1, Laravel 2, GoWorkers 3" {
		t.Errorf("ran %s", got)
	}
	// Whose queues are not Sidekiq's is known in the whole fleet.
	pulses, err := beat.ReadPulses(t.Context(), rdb)
	if want := map[string]string{"php": "laravel", "go": "go-workers"}; err != nil || !maps.Equal(pulses[k.Identity()].Elsewhere, want) {
		t.Errorf("elsewhere: %v, %v", pulses[k.Identity()], err)
	}
	if got := k.Daemon.Tree().String(); !strings.Contains(got, "php") || !strings.Contains(got, "rails") {
		t.Errorf("tree %s", got)
	}
}

// A handler is found by the name that Laravel shows if there is none of the class, and the job
// keeps its bytes.
func TestAHandlerOfTheDisplayName(t *testing.T) {
	rdb := testkit.Redis(t)
	w := harness.Must(laravel.New(laravel.Options{}))(t)
	var r troupe.Registry
	classes := make(chan string, 4)
	handle := func(name string) {
		troupe.HandleClass(&r, name, troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
			classes <- name + " " + p.HandlerClass()
			return errors.New("boom")
		}))
	}
	handle("Resize pictures")
	handle("both")
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 1, Wire: w, Queues: actors.Strict{"a"}}}})
	c := laravel.NewClient(rdb, "")
	jobs := []string{
		`{"uuid":"1","displayName":"Resize pictures","job":"Unknown@fire","maxTries":2,"backoff":3600,"data":1,"attempts":%d}`,
		`{"uuid":"2","displayName":"Resize pictures","job":"both","maxTries":1,"data":1,"attempts":%d}`,
		`{"uuid":"3","displayName":"neither","job":"Unknown","maxTries":1,"data":1,"attempts":%d}`,
	}
	for _, text := range jobs {
		harness.OK(t, c.PushRaw(t.Context(), laravel.Raw{Queue: "a", Payload: fmt.Appendf(nil, text, 0)}))
	}
	k.Await("three jobs", func() bool { return k.Stats().Processed == 3 && k.Settled() })
	if first, second := <-classes, <-classes; first != "Resize pictures Resize pictures" || second != "both both" {
		t.Errorf("ran %s, %s", first, second)
	}
	if got := rdb.ZRange(t.Context(), "queues:a:delayed", 0, -1).Val(); len(got) != 1 || got[0] != fmt.Sprintf(jobs[0], 1) {
		t.Errorf("to be tried again: %q", got)
	}
	failed, err := c.Failed(t.Context(), 0, 0)
	if err != nil || len(failed) != 2 {
		t.Fatalf("failed %+v, %v", failed, err)
	}
	for _, f := range failed {
		if f.UUID == "3" && !strings.Contains(f.Exception, `"Unknown"`) {
			t.Errorf("failed with %s", f.Exception)
		}
	}
}

// Sidekiq's pages show a job that runs, and a daemon with nothing else beats and stops as ever.
func TestTheOnlyCapsule(t *testing.T) {
	rdb := testkit.Redis(t)
	w := harness.Must(laravel.New(laravel.Options{}))(t)
	var r troupe.Registry
	hold, deaths := make(chan struct{}), make(chan *troupe.Payload, 1)
	troupe.HandleClass(&r, "slow", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		<-hold
		return errors.New("boom")
	}))
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: &r, Capsules: []actors.Capsule{{Wire: w, Queues: actors.Strict{"a"}}}, HeartbeatInterval: 50 * time.Millisecond,
		DeathHandlers: []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, _ error) { deaths <- p }},
	})
	uuids := harness.Must(laravel.NewClient(rdb, "").Push(t.Context(), laravel.Job{Queue: "a", Name: "slow", Data: map[string]int{"x": 1}}))(t)
	var work struct{ Payload string }
	k.Await("the job on the Busy page", func() bool {
		for _, text := range rdb.HGetAll(t.Context(), k.Daemon.Identity()+":work").Val() {
			harness.OK(t, json.Unmarshal([]byte(text), &work))
		}
		return work.Payload != ""
	})
	var job struct {
		Class, JID, Queue string
		Args              []any
	}
	if err := json.Unmarshal([]byte(work.Payload), &job); err != nil || job.Class != "slow" || job.JID != uuids[0] || job.Queue != "a" || len(job.Args) != 1 {
		t.Errorf("Sidekiq sees %s, %v", work.Payload, err)
	}
	close(hold)
	if p := <-deaths; p.Class() != "slow" || p.JID() != uuids[0] {
		t.Errorf("the death handler got %s", p.Bytes())
	}
	failed, err := laravel.NewClient(rdb, "").Failed(t.Context(), 0, 1)
	if err != nil || len(failed) != 1 || failed[0].UUID != uuids[0] || failed[0].Exception != "boom" {
		t.Errorf("failed %+v, %v", failed, err)
	}
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if key == "dead" || key == "retry" || strings.HasPrefix(key, "stat:") {
			t.Errorf("there is a key %s", key)
		}
	}
}

// A worker that is killed by its deadline fails by the rules.
func TestTimeoutOfAJob(t *testing.T) {
	rdb := testkit.Redis(t)
	w := harness.Must(laravel.New(laravel.Options{}))(t)
	var r troupe.Registry
	troupe.HandleClass(&r, "slow", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{{Wire: w, Queues: actors.Strict{"a"}}}})
	c := laravel.NewClient(rdb, "")
	harness.Must(c.Push(t.Context(), laravel.Job{Queue: "a", Name: "slow", Timeout: time.Second, MaxTries: 5, FailOnTimeout: true}))(t)
	k.Await("a failed job", func() bool {
		failed, err := c.Failed(t.Context(), 0, 1)
		return err == nil && len(failed) == 1 && failed[0].Exception == troupe.ErrJobTimeout.Error()
	})
}
