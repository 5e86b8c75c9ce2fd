package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// A job is found wherever it is to run or runs, in that order of moves; a dead one is missing.
func TestMissing(t *testing.T) {
	rdb := testkit.Redis(t)
	ctx, c, i := t.Context(), client.New(rdb), inspect.New(rdb)
	push := func(opts ...client.Option) string { return harness.Must(c.PushClass(ctx, "A", []any{}, opts...))(t) }
	taken := push(client.Queue("a"))
	units := harness.Must(fetcher(t, rdb, "host:1:aa").Take(ctx, 1, nil))(t)
	harness.Equal(t, "taken", len(units), 1)
	waiting, scheduled, dead := push(), push(client.In(time.Hour)), push(client.Queue("dead"))
	retried := push(client.Queue("retried"))
	for queue, set := range map[string]string{"retried": "retry", "dead": "dead"} {
		harness.OK(t, rdb.Do(ctx, "zadd", set, 5e9, rdb.RPop(ctx, "queue:"+queue).Val()).Err())
	}
	rdb.SAdd(ctx, "processes", "ruby:1:cc")
	rdb.HSet(ctx, "ruby:1:cc", "info", "{}")
	rdb.HSet(ctx, "ruby:1:cc:work", "t1", `{"queue":"default","run_at":1,"payload":"{\"class\":\"A\",\"jid\":\"runs\",\"args\":[]}"}`)
	got := harness.Must(i.Missing(ctx, "nowhere", taken, waiting, scheduled, dead, retried, "runs"))(t)
	if want := "nowhere " + dead; strings.Join(got, " ") != want {
		t.Errorf("missing %q, expected %q", got, want)
	}
	rdb.HSet(ctx, "troupe:places", "z:1:a#default.1", `{"v":99}`)
	if _, err := i.Missing(ctx, "nowhere"); err == nil || !strings.Contains(err.Error(), "z:1:a#default.1") {
		t.Errorf("beside a fetcher of an unknown layout: %v", err)
	}
}
