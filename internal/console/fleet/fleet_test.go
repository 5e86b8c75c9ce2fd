package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// tell writes what a process tells; without a pulse as Ruby does.
func tell(t *testing.T, rdb *redis.Client, id string, at time.Time, p *beat.Pulse, queues string) {
	t.Helper()
	ctx := t.Context()
	if _, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.SAdd(ctx, "processes", id)
		pipe.HSet(ctx, id, "info", fmt.Sprintf(`{"hostname":"h","pid":1,"identity":%q,"concurrency":5,"queues":[%s],"tag":"shop"}`, id, queues),
			"busy", 2, "concurrency", 5, "beat", at.Unix(), "quiet", "false", "rss", 2048)
		if p != nil {
			p.At = float64(at.Unix())
			beat.WritePulse(ctx, pipe, id, p.JSON(), time.Now())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestProcesses(t *testing.T) {
	rdb, _ := redistest.New(t)
	f, now := New(rdb, nil), time.Now()
	tell(t, rdb, "a:1:ruby", now, nil, `"default"`)
	tell(t, rdb, "b:1:fine", now, &beat.Pulse{Phase: "running", Restarts: 2, Capsules: []beat.PulseCapsule{{Name: "default", Busy: 2, Idle: 3}}}, `"default"`)
	tell(t, rdb, "c:1:down", now, &beat.Pulse{Phase: "running", Capsules: []beat.PulseCapsule{{Name: "default", Busy: 2, Down: 3}}}, `"default"`)
	tell(t, rdb, "d:1:quiet", now, &beat.Pulse{Phase: "quiet", Capsules: []beat.PulseCapsule{{Name: "default", Stopped: 5}}}, `"default"`)
	tell(t, rdb, "e:1:silent", now.Add(-30*time.Second), &beat.Pulse{Phase: "running"}, `"default"`)
	tell(t, rdb, "f:1:dead", now.Add(-2*time.Minute), &beat.Pulse{Phase: "running", Capsules: []beat.PulseCapsule{{Busy: 4, Idle: 1}}, Tag: "shop"}, `"default"`)
	rdb.Del(t.Context(), "f:1:dead") // its hash has expired
	all := harness.Must(f.Processes(t.Context()))(t)
	var got []string
	for _, p := range all {
		got = append(got, fmt.Sprintf("%s %s %s %s %d/%d %v", p.Identity, p.Runtime, p.Tag, p.Phase, p.Busy, p.Slots, p.Troubled()))
	}
	want := []string{
		"a:1:ruby ruby shop running 2/5 false", "b:1:fine troupe shop running 2/5 false", "c:1:down troupe shop running 2/5 true",
		"d:1:quiet troupe shop quiet 2/5 false", "e:1:silent troupe shop silent 2/5 true", "f:1:dead troupe shop gone 4/5 true",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q\nexpected %q", got, want)
	}
	if ours := Ours(all); fmt.Sprint(ours) != "[b:1:fine c:1:down d:1:quiet e:1:silent]" {
		t.Errorf("ours: %v", ours)
	}
	if all[0].Restarts != nil || *all[1].Restarts != 2 {
		t.Errorf("restarts: %v, %v", all[0].Restarts, all[1].Restarts)
	}
}

// A queue that is paused before anything was pushed to it can be seen, and so be unpaused.
func TestAPausedQueueIsSeen(t *testing.T) {
	rdb, _ := redistest.New(t)
	f, ctx := New(rdb, nil), t.Context()
	harness.OK(t, f.Inspector.Queue("new").SetPaused(ctx, true))
	tell(t, rdb, "a:1:ruby", time.Now(), nil, `"new"`)
	processes := harness.Must(f.Processes(ctx))(t)
	all, err := new(Sampler).Queues(ctx, f, processes)
	if err != nil || len(all) != 1 || all[0].Name != "new" || !all[0].Paused || all[0].Listeners != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// What goes out is known where all that listen count it.
func TestRatesOfQueues(t *testing.T) {
	rdb, _ := redistest.New(t)
	f, ctx, now := New(rdb, nil), t.Context(), time.Now()
	push := func(queue string, n int) {
		rdb.SAdd(ctx, "queues", queue)
		for range n {
			rdb.LPush(ctx, "queue:"+queue, `{"class":"A","args":[],"jid":"x"}`)
		}
	}
	taken := func(n uint64) *beat.Pulse {
		return &beat.Pulse{Phase: "running", Taken: map[string]uint64{"ours": n, "both": n}}
	}
	push("ours", 10)
	push("both", 10)
	push("nobody", 10)
	tell(t, rdb, "a:1:ruby", now, nil, `"both"`)
	tell(t, rdb, "b:1:go", now, taken(100), `"ours","both"`)
	var s Sampler
	look := func() map[string]Queue {
		t.Helper()
		processes := harness.Must(f.Processes(ctx))(t)
		rows := harness.Must(s.Queues(ctx, f, processes))(t)
		named := map[string]Queue{}
		for _, q := range rows {
			named[q.Name] = q
		}
		return named
	}
	if q := look()["ours"]; q.Growth != nil || q.In != nil || q.Listeners != 1 || q.Waiting != 10 {
		t.Errorf("at first: %+v", q)
	}
	s.at = s.at.Add(-10 * time.Second) // as if it were ten seconds ago
	push("ours", 20)                   // and 40 more that were taken
	push("both", 20)
	tell(t, rdb, "b:1:go", now, taken(140), `"ours","both"`)
	named := look()
	near := func(got *float64, want float64) bool { return got != nil && *got > want*0.9 && *got < want*1.01 }
	if q := named["ours"]; !near(q.Growth, 2) || !near(q.Out, 4) || !near(q.In, 6) {
		t.Errorf("ours: growth %v, out %v, in %v", *q.Growth, q.Out, q.In)
	}
	if q := named["both"]; !near(q.Growth, 2) || q.Out != nil || q.In != nil || q.Listeners != 2 {
		t.Errorf("both: %+v", q)
	}
	if q := named["nobody"]; q.Out == nil || *q.Out != 0 || q.Listeners != 0 {
		t.Errorf("nobody: %+v", q)
	}
	s.at = s.at.Add(-10 * time.Second)
	tell(t, rdb, "b:1:go", now, taken(30), `"ours","both"`) // it has been started anew
	if q := look()["ours"]; q.Out == nil || *q.Out != 0 {
		t.Errorf("after a restart: %+v", q)
	}
}

// What is to be known of a queue before jobs are moved there.
func TestDestination(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, f, now := t.Context(), New(rdb, nil), time.Now()
	tell(t, rdb, "a:1:fine", now, &beat.Pulse{Phase: "running", Elsewhere: map[string]string{"images": "laravel", "both": "laravel"}}, `"served","held","images","both"`)
	tell(t, rdb, "b:1:ruby", now, nil, `"both"`)
	rdb.SAdd(ctx, "queues", "pushed")
	rdb.SAdd(ctx, "paused", "held")
	rdb.Set(ctx, "queue:odd", "x", 0)
	for name, want := range map[string]string{
		"served": "", "both": "", "held": `the queue "held" is paused: jobs wait there until it is not`, "pushed": `no process takes from the queue "pushed": jobs wait there until one does`,
		"new":    `no queue "new" is known: nothing was ever pushed to it, and no process listens to it`,
		"images": `"images" is a queue of laravel in the process a:1:fine, which keeps its jobs at keys of its own: they are not seen here, and no job can be moved there`,
		"odd":    `the key "queue:odd" is a string, expected a list of jobs`, "": "", "x.suspects": "",
	} {
		warning, err := f.Destination(ctx, name)
		no := name == "images" || name == "odd" || name == "" || name == "x.suspects"
		if (err != nil) != no || !no && warning != want || no && want != "" && err.Error() != want {
			t.Errorf("%s: %q, %v", name, warning, err)
		}
	}
	if row, err := f.Queue(ctx, "both"); err != nil || row.Listeners != 1 {
		t.Errorf("of two systems: %+v, %v", row, err)
	}
}
