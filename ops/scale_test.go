package ops

import (
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/testkit/script"
	"github.com/troupehq/troupe/wire/goworkers"
	"github.com/troupehq/troupe/wire/laravel"
)

// A load counts what waits and what runs, in every process of the fleet, so that a platform that
// scales by it ends no process that works.
func TestScale(t *testing.T) {
	mem := testkit.NewServer(t)
	s := script.New(t)
	start := func(rdb redis.UniversalClient, capsules ...actors.Capsule) *testkit.Kit {
		return testkit.Start(t, actors.Config{Redis: rdb, Registry: s.Registry(), Logger: zerolog.Nop(), Capsules: capsules})
	}
	proxy := chaos.NewProxy(t, mem.Options())
	php := harness.Must(laravel.New(laravel.Options{}))(t)
	old := goworkers.New(goworkers.Options{Namespace: "old"})
	a := start(proxy.Client(),
		actors.Capsule{Concurrency: 2},
		actors.Capsule{Name: "basic", Concurrency: 1, Queues: fetch.Strict{"basic", "low"}, Fetch: fetch.NewBasic},
		actors.Capsule{Name: "old", Concurrency: 1, Queues: fetch.Strict{"old"}, Wire: old},
		actors.Capsule{Name: "php", Concurrency: 1, Queues: fetch.Strict{"php"}, Wire: php},
	)
	b := start(mem.Client, actors.Capsule{Concurrency: 3})
	h := Handler(a.Daemon)

	for range 7 {
		a.Push(script.Hang())
	}
	for range 2 {
		a.Push(script.Hang(), client.Queue("basic"))
	}
	a.Push(script.Hang(), client.Queue("elsewhere"))
	a.Await("all slots are busy", func() bool { return a.Stats().Busy == 3 && b.Stats().Busy == 3 })
	var got load
	a.Await("the load", func() bool {
		return get(t, h, "/scale.json?queue=default", &got) == http.StatusOK && got.Load == 7 && got.Latency > 0
	})
	if got.Waiting != 2 || got.Running != 5 {
		t.Errorf("default: %+v, expected 2 waiting and 5 running in two processes", got)
	}
	for path, want := range map[string]load{
		"?queue=basic": {2, 1, 1, 0}, "?queue=low": {}, "?queue=default&queue=basic": {9, 3, 6, 0}, "": {9, 3, 6, 0}, "?queue=old": {},
	} {
		if code := get(t, h, "/scale.json"+path, &got); code != http.StatusOK || got.Load != want.Load || got.Waiting != want.Waiting || got.Running != want.Running {
			t.Errorf("%s: %d, %+v, expected %+v", path, code, got, want)
		}
	}
	var why answer
	for _, name := range []string{"elsewhere", "php", ""} {
		if code := get(t, h, "/scale.json?queue="+name, &why); code != http.StatusNotFound || why.Reasons[0].Code != "unknown_queue" {
			t.Errorf("queue %q: %d, %+v", name, code, why)
		}
	}
	if want := `queue is "", expected one of ["basic" "default" "low" "old"]`; why.Reasons[0].Text != want {
		t.Errorf("%q, expected %q", why.Reasons[0].Text, want)
	}

	harness.Must(client.New(mem.Client).Push(t.Context(), script.Hang()))(t)
	harness.OK(t, mem.Client.LPush(t.Context(), "old:queue:old", "{}").Err())
	a.Await("what is known for a second is asked for again", func() bool {
		get(t, h, "/scale.json?queue=default", &got)
		return got.Load == 8
	})

	proxy.Kill()
	a.Await("no answer, so that a platform changes nothing", func() bool {
		return get(t, h, "/scale.json", &why) == http.StatusServiceUnavailable && why.Reasons[0].Code == "redis_away"
	})
	proxy.Restart()
	a.Await("an answer", func() bool { return get(t, h, "/scale.json", &got) == http.StatusOK && got.Load == 10 })
	s.Release()
}

// However many ask, Redis is asked once a second.
func TestScaleAsksOnce(t *testing.T) {
	proxy := chaos.NewProxy(t, testkit.NewServer(t).Options())
	asked := proxy.Add(chaos.Fault{Command: "llen", Mentions: "queue:default", Do: chaos.Effect{Delay: time.Nanosecond}})
	d := harness.Must(actors.New(actors.Config{Redis: proxy.Client(), Registry: script.New(t).Registry()}))(t)
	h := Handler(d)
	done := make(chan int)
	began := time.Now()
	for range 50 {
		go func() {
			var got load
			done <- get(t, h, "/scale.json", &got)
		}()
	}
	for range 50 {
		harness.Equal(t, "code", <-done, http.StatusOK)
	}
	if most := 1 + int(time.Since(began)/scaleLife); asked.Hits() < 1 || asked.Hits() > most {
		t.Errorf("Redis was asked %d times, expected %d at most", asked.Hits(), most)
	}
}
