package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// A job's own time-out counts before that of its class.
func TestATimeoutOfTheJobsOwn(t *testing.T) {
	testkit.Virtual(t, actors.Config{Registry: limitedJobs(t)}, func(t *testing.T, k *testkit.Kit) {
		for _, c := range []struct {
			name string
			opts []client.Option
			want time.Duration
		}{
			{"class", nil, time.Minute},
			{"shorter", []client.Option{client.Timeout(1500 * time.Millisecond)}, 1500 * time.Millisecond},
			{"longer", []client.Option{client.Timeout(5 * time.Minute)}, 5 * time.Minute},
		} {
			began := time.Now()
			k.Expect(testkit.Events[event.JobFailed]().Within(2*time.Hour), func() {
				harness.Must(k.Client.PushClass(t.Context(), "Waits", []any{}, append(c.opts, client.Retry(0))...))(t)
			})
			harness.Equal(t, c.name+": after", time.Since(began).Round(10*time.Millisecond), c.want)
		}
	})
}

func limitedJobs(t *testing.T) *troupe.Registry {
	t.Helper()
	var r troupe.Registry
	troupe.HandleClass(&r, "Waits", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}), troupe.Timeout(time.Minute))
	troupe.HandleClass(&r, "Soon", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }), troupe.Options{ExpireAfter: time.Hour})
	return &r
}

// No run starts after a job's deadline: it goes to the dead set, with the reason.
func TestNoRunStartsAfterTheDeadline(t *testing.T) {
	rdb := testkit.Redis(t)
	var deaths []error
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: limitedJobs(t), Concurrency: 1, DeathHandlers: []actors.DeathHandler{
		func(_ context.Context, _ *troupe.Payload, err error) { deaths = append(deaths, err) },
	}})
	now := time.Now()
	for i, fields := range []string{
		fmt.Sprintf(`"class":"Soon","t_deadline":%d`, now.Unix()-1), // past
		fmt.Sprintf(`"class":"Soon","t_deadline":%d`, now.Unix()+3600),
		fmt.Sprintf(`"class":"Soon","created_at":%d.5`, now.Unix()-3601), // past that of its class
		fmt.Sprintf(`"class":"Soon","created_at":%d.5`, now.Unix()-3500),
		fmt.Sprintf(`"class":"Soon","created_at":%d.5,"t_deadline":%d`, now.Unix()-3601, now.Unix()+60), // its own counts
		fmt.Sprintf(`"class":"Nobody","t_deadline":%d`, now.Unix()-1),
		`"class":"Soon","t_deadline":"tomorrow"`, // is none
	} {
		harness.OK(t, rdb.LPush(t.Context(), "queue:default", fmt.Sprintf(`{%s,"args":[],"retry":true,"jid":"%d"}`, fields, i)).Err())
	}
	k.Await("all", func() bool { return k.Stats().Processed == 7 && k.Settled() })
	dead := rdb.ZRange(t.Context(), "dead", 0, -1).Val()
	var jids []string
	for _, text := range dead {
		p := harness.Must(troupe.ParsePayload([]byte(text)))(t)
		jids = append(jids, p.JID())
		class, _ := p.String("error_class")
		message, _ := p.String("error_message")
		if class != "troupe.ExpiredError" || !strings.HasPrefix(message, "not run: it has expired, at 20") {
			t.Errorf("%s: %s", class, message)
		}
	}
	harness.Equal(t, "dead are, expected 0 2 5", strings.Join(jids, " "), "0 2 5")
	harness.Equal(t, "to be retried", rdb.ZCard(t.Context(), "retry").Val(), 0)
	var late *troupe.ExpiredError
	if len(deaths) != 3 || !errors.As(deaths[0], &late) || late.At.Unix() != now.Unix()-1 {
		t.Errorf("deaths %v", deaths)
	}
}

// A late job that is to be dropped is not run, and has not failed. So is one of Sidekiq Pro's that is late by its expires_in.
func TestALateJobIsDropped(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	var ran sync.Map
	handler := troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error { ran.Store(p.JID(), true); return nil })
	troupe.HandleClass(&r, "Soon", handler, troupe.Options{ExpireAfter: time.Hour, DropExpired: true})
	troupe.HandleClass(&r, "Any", handler)
	var log harness.Buffer
	var failures atomic.Int64
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: &r, Logger: zerolog.New(&log), ErrorHandlers: []actors.ErrorHandler{func(context.Context, error, actors.ErrorContext) { failures.Add(1) }},
		DeathHandlers: []actors.DeathHandler{func(context.Context, *troupe.Payload, error) { failures.Add(1) }},
	})
	now := time.Now().Unix()
	jobs := []struct {
		fields string
		runs   bool
	}{
		{fmt.Sprintf(`"class":"Soon","created_at":%d.5`, now-3601), false},
		{fmt.Sprintf(`"class":"Soon","created_at":%d.5`, now-3500), true},
		{fmt.Sprintf(`"class":"Soon","t_deadline":%d`, now-1), false},
		{fmt.Sprintf(`"class":"Soon","t_deadline":%d,"t_drop":false`, now-1), false}, // dead
		{fmt.Sprintf(`"class":"Any","t_deadline":%d,"t_drop":true`, now-1), false},
		{fmt.Sprintf(`"class":"Any","t_deadline":%d,"t_drop":true`, now+600), true},
		{`"class":"Any","t_drop":true`, true},
		{fmt.Sprintf(`"class":"Any","expires_in":59.5,"created_at":%d.0,"enqueued_at":%d.0`, now-60, now-60), false},
		{fmt.Sprintf(`"class":"Any","expires_in":59.5,"created_at":%d.0,"enqueued_at":%d.0`, now-3600, now), true},   // was scheduled
		{fmt.Sprintf(`"class":"Any","expires_in":60,"created_at":%d000,"enqueued_at":%d000`, now-61, now-61), false}, // as Sidekiq 8 has it
		{fmt.Sprintf(`"class":"Any","expires_in":60,"failed_at":%d.0,"retry_count":0,"enqueued_at":%d.0`, now-61, now), false},
		{fmt.Sprintf(`"class":"Any","expires_in":60,"failed_at":%d.0,"retry_count":0,"enqueued_at":%d.0`, now-30, now), true},
		{fmt.Sprintf(`"class":"Any","expires_in":60,"t_deadline":%d,"enqueued_at":%d.0`, now+60, now-3600), true}, // its own counts
		{fmt.Sprintf(`"class":"Any","expires_in":"soon","enqueued_at":%d.0`, now-3600), true},                     // is none
	}
	// Its lock goes with it.
	lock := harness.Must(client.New(rdb).PushClass(t.Context(), "Any", []any{}, client.Queue("other"), client.Unique(troupe.Unique{}), client.ExpireAt(time.Unix(now-1, 0)), client.DropExpired()))(t)
	text := rdb.RPop(t.Context(), "queue:other").Val()
	if !strings.Contains(text, `"t_drop":true`) || lock == "" {
		t.Errorf("pushed %s", text)
	}
	expired := testkit.Events(func(e event.JobExpired) bool { return e.Expired.Before(time.Now()) && e.Job.JID != "" })
	k.Expect(expired.Times(7), func() {
		for i, j := range jobs {
			harness.OK(t, rdb.LPush(t.Context(), "queue:default", fmt.Sprintf(`{%s,"args":[],"retry":true,"jid":"%d"}`, j.fields, i)).Err())
		}
		harness.OK(t, rdb.LPush(t.Context(), "queue:default", text).Err())
	})
	k.Await("all", func() bool { return k.Stats().Processed == uint64(len(jobs)+1) && k.Settled() })
	for i, j := range jobs {
		if _, did := ran.Load(strconv.Itoa(i)); did != j.runs {
			t.Errorf("job %d has run: %v, want %v: %s", i, did, j.runs, j.fields)
		}
	}
	harness.Equal(t, "dead", rdb.ZCard(t.Context(), "dead").Val(), 1)
	harness.Equal(t, "failed", k.Stats().Failed, 1)
	harness.Equal(t, "calls of handlers of failures", failures.Load(), 2)
	harness.Equal(t, "locks", len(rdb.Keys(t.Context(), "troupe:lock:*").Val()), 0)
	harness.Equal(t, "lines of the log", log.Count(`"outcome":"expired"`), 7)
	runs := map[string]uint64{}
	for _, c := range k.Metrics().Classes {
		runs[c.Class] = c.Runs["expired"]
	}
	harness.Equal(t, "runs counted of Soon", runs["Soon"], 2)
	harness.Equal(t, "runs counted of Any", runs["Any"], 5)
}

func TestLimitsArePushed(t *testing.T) {
	rdb := testkit.Redis(t)
	c := client.New(rdb)
	at := time.UnixMicro(1795000000_250000)
	harness.Must(c.PushClass(t.Context(), "Soon", []any{}, client.Timeout(90*time.Second), client.ExpireAt(at)))(t)
	text := rdb.LIndex(t.Context(), "queue:default", 0).Val()
	if !strings.Contains(text, `"t_timeout":90`) || !strings.Contains(text, `"t_deadline":1795000000.25`) {
		t.Errorf("pushed %s", text)
	}
	for _, opts := range [][]client.Option{
		{client.Timeout(0)}, {client.ExpireAt(time.Time{})}, {client.Set("t_timeout", "x")}, {client.Set("t_deadline", -1)},
	} {
		var field *client.FieldError
		if _, err := c.PushClass(t.Context(), "Soon", []any{}, opts...); !errors.As(err, &field) {
			t.Errorf("%v", err)
		}
	}
}
