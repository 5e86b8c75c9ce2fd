package job_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func fields(t *testing.T, rdb *redis.Client, jid string, want map[string]string) {
	t.Helper()
	got, err := rdb.HGetAll(t.Context(), "it-"+jid).Result()
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("it-%s is %q, %v; want %q", jid, got, err, want)
	}
	if ttl := rdb.TTL(t.Context(), "it-"+jid).Val(); ttl > job.IterationTTL || ttl < job.IterationTTL-time.Minute {
		t.Errorf("it-%s lives %s, want 30 days", jid, ttl)
	}
}

func TestStateHasTheFieldsOfSidekiq(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	save := func(it troupe.Iteration) {
		t.Helper()
		if at, err := job.SaveIteration(ctx, rdb, "j", it); err != nil || !at.IsZero() {
			t.Fatalf("%v, %v", at, err)
		}
	}
	if it, err := job.LoadIteration(ctx, rdb, "j"); err != nil || it.Executions != 0 || it.Cursor != nil || it.Runtime != 0 || !it.Cancelled.IsZero() {
		t.Errorf("of no state: %+v, %v", it, err)
	}
	save(troupe.Iteration{Executions: 1, Cursor: json.RawMessage("199")})
	fields(t, rdb, "j", map[string]string{"ex": "1", "c": "199", "rt": "0"})
	rdb.Expire(ctx, "it-j", time.Hour)
	want := troupe.Iteration{Executions: 2, Cursor: json.RawMessage(`{"id":5}`), Runtime: 12345678 * time.Microsecond}
	save(want)
	fields(t, rdb, "j", map[string]string{"ex": "2", "c": `{"id":5}`, "rt": "12.345678"}) // and lives 30 days again
	if it, err := job.LoadIteration(ctx, rdb, "j"); err != nil || it.Executions != 2 || string(it.Cursor) != `{"id":5}` || it.Runtime != want.Runtime {
		t.Errorf("loaded %+v, %v", it, err)
	}
	save(troupe.Iteration{Executions: 3, Runtime: 7 * time.Second})
	fields(t, rdb, "j", map[string]string{"ex": "3", "c": "null", "rt": "7.0"})
	if err := job.DeleteIterations(ctx, rdb, "j", "other"); err != nil || rdb.Exists(ctx, "it-j").Val() != 0 {
		t.Errorf("delete: %v", err)
	}
}

func TestACancellationIsKeptAndReturned(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	first := time.Unix(1795224881, 0)
	for i := range 2 { // the first one counts
		if at, err := job.CancelIteration(ctx, rdb, "j", first.Add(time.Duration(i)*time.Hour)); err != nil || !at.Equal(first) {
			t.Errorf("cancelled at %v, %v", at, err)
		}
	}
	fields(t, rdb, "j", map[string]string{"cancelled": "1795224881"})
	if it, err := job.LoadIteration(ctx, rdb, "j"); err != nil || !it.Cancelled.Equal(first) || it.Executions != 0 || it.Cursor != nil {
		t.Errorf("loaded %+v, %v", it, err)
	}
	if at, err := job.SaveIteration(ctx, rdb, "j", troupe.Iteration{Executions: 1}); err != nil || !at.Equal(first) {
		t.Errorf("a save returned %v, %v", at, err)
	}
	fields(t, rdb, "j", map[string]string{"cancelled": "1795224881", "ex": "1", "c": "null", "rt": "0"})
}

func TestNumbersOfAnyForm(t *testing.T) {
	rdb, _ := redistest.New(t)
	for _, c := range []struct {
		field, text string
		want        troupe.Iteration
	}{
		{"rt", "1.5e-3", troupe.Iteration{Runtime: 1500 * time.Microsecond}},
		{"rt", "0.0", troupe.Iteration{}},
		{"rt", "NaN", troupe.Iteration{}},
		{"rt", "-1", troupe.Iteration{}},
		{"rt", "1e300", troupe.Iteration{}},
		{"ex", "many", troupe.Iteration{}},
		{"cancelled", "true", troupe.Iteration{Cancelled: time.Unix(0, 0)}}, // whatever is there
	} {
		rdb.Del(t.Context(), "it-j")
		rdb.HSet(t.Context(), "it-j", c.field, c.text)
		it, err := job.LoadIteration(t.Context(), rdb, "j")
		if err != nil || it.Runtime != c.want.Runtime || it.Executions != 0 || it.Cancelled.IsZero() != c.want.Cancelled.IsZero() {
			t.Errorf("%s %q: %+v, %v", c.field, c.text, it, err)
		}
	}
}

func TestAKeyOfAnotherTypeIsAnError(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	rdb.Set(ctx, "it-j", "text", 0)
	if _, err := job.LoadIteration(ctx, rdb, "j"); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("load: %v", err)
	}
	if _, err := job.SaveIteration(ctx, rdb, "j", troupe.Iteration{}); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("save: %v", err)
	}
	if _, err := job.CancelIteration(ctx, rdb, "j", time.Now()); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("cancel: %v", err)
	}
}
