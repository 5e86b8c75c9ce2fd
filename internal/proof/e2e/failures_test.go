package e2e

import (
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// entry is what Ruby's RetrySet and DeadSet say of a job.
type entry struct {
	JID, Class, Queue string
	Item              map[string]any
	At                float64
}

const showRetries = `show(Sidekiq::RetrySet.new.map { |e| {JID: e.jid, Class: e.klass, Queue: e.queue, Item: e.item, At: e.at.to_f} })`

type stats struct{ Processed, Failed, Retries, Dead, Enqueued int }

func rubyStats(t testing.TB, url string) stats {
	t.Helper()
	var s stats
	ruby(t, url, `s = Sidekiq::Stats.new
show(Processed: s.processed, Failed: s.failed, Retries: s.retry_size, Dead: s.dead_size, Enqueued: s.enqueued)`, &s)
	return s
}

// A job that fails in Go, is shown and retried by Ruby, and succeeds there.
func TestRubyRetriesWhatFailedInGo(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	c := client.New(rdb)
	poller := harness.Must(c.PushClass(t.Context(), "FailOnce", []any{"é"}, client.Set("cattr", map[string]any{"user": 7})))(t)
	button := harness.Must(c.PushClass(t.Context(), "FailOnce", []any{"button"}))(t)
	before := time.Now()
	w := startWorker(t, workerSpec{Redis: url, Records: rec.url})
	testkit.Await(t, "two retries", func() bool { return rdb.ZCard(t.Context(), "retry").Val() == 2 })
	w.Stop(soon)

	var retries []entry
	ruby(t, url, showRetries, &retries)
	for _, e := range retries {
		failed, _ := e.Item["failed_at"].(float64)
		if e.Class != "FailOnce" || e.Queue != "default" || e.Item["error_class"] != "E2E::Failure" ||
			e.Item["error_message"] != "once" || e.Item["retry_count"] != 0.0 || e.Item["retried_at"] != nil ||
			failed < float64(before.Unix()) || failed > float64(time.Now().Unix()+1) {
			t.Errorf("Ruby sees %+v", e)
		}
	}
	if s := rubyStats(t, url); s.Processed != 2 || s.Failed != 2 || s.Retries != 2 {
		t.Errorf("Ruby's stats after Go's part: %+v", s)
	}

	// one retried by hand, the other by Ruby's poller
	ruby(t, url, `Sidekiq::RetrySet.new.find_job(`+mustJSON(button)+`).retry`, nil)
	ruby(t, url, `e = Sidekiq::RetrySet.new.find_job(`+mustJSON(poller)+`); e.reschedule(Time.now.to_f - 1)
show(Sidekiq::RetrySet.new.size)`, nil)
	s := sidekiq(t, url, "-c", "1")
	// In Ruby FailOnce always fails: a second failure on top of Go's first.
	runs := rubyRuns(t, rdb, 2)
	testkit.Await(t, "two retries again", func() bool { return rdb.ZCard(t.Context(), "retry").Val() == 2 })
	s.Stop(soon)
	for _, run := range runs {
		want := `["é"]`
		if run.JID == button {
			want = `["button"]`
		}
		if string(run.Args) != want {
			t.Errorf("Ruby ran %s with %s", run.JID, run.Args)
		}
	}
	ruby(t, url, showRetries, &retries)
	for _, e := range retries {
		count := 1.0
		if e.JID == button {
			count = 0 // Ruby's button counts one down
		}
		if e.Item["retry_count"] != count || e.Item["error_class"] != "ArgumentError" || e.Item["retried_at"] == nil {
			t.Errorf("Ruby wrote %+v", e)
		}
	}

	// and back: Go retries what failed in Ruby, and succeeds
	retryNow(t, rdb)
	startWorker(t, workerSpec{Redis: url, Records: rec.url})
	rec.await(soon, 4, "end", "")
	for _, jid := range []string{poller, button} {
		if ends := rec.find("end", jid); len(ends) != 2 || ends[1].Error != "" {
			t.Errorf("in Go %s ended as %+v", jid, ends)
		}
	}
	if p := parsed(t, rec.find("start", poller)[1].Payload); string(mustGet(p.Get("cattr"))) != `{"user":7}` {
		t.Errorf("payload after both sides: %s", p.Bytes())
	}
	clean(t, rdb)
}

func mustGet[T any](v T, _ bool) T { return v }

// Stats of both sides add up, also in today's history, and deaths arrive.
func TestStatsOfBothSidesAddUp(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	c := client.New(rdb)
	push := func(class, queue string, n int, opts ...client.Option) {
		t.Helper()
		harness.Must(c.PushBulkClass(t.Context(), class, numbered(n), append(opts, client.Queue(queue))...))(t)
	}
	push("Record", "go", 40)
	push("Fail", "go", 5, client.Retry(0))
	push("Boom", "go", 3)
	push("Unknown", "go", 2)
	push("Fail", "go", 2, client.Never())
	push("Record", "ruby", 30)
	push("Fail", "ruby", 4, client.Retry(0))
	if err := rdb.LPush(t.Context(), "queue:go", "no JSON", "[1]").Err(); err != nil { // dead, and no executions
		t.Fatal(err)
	}
	w := startWorker(t, workerSpec{Redis: url, Records: rec.url, Capsules: []capsuleSpec{{Concurrency: 5, Queues: []string{"go"}}}})
	s := sidekiq(t, url, "-c", "2", "-q", "ruby")
	rubyRuns(t, rdb, 34)
	testkit.Await(t, "empty queues", func() bool {
		return rdb.Exists(t.Context(), "queue:go", "queue:ruby").Val() == 0 && len(private(t, rdb)) == 0
	})
	w.Stop(soon)
	s.Stop(soon)
	got := rubyStats(t, url)
	want := stats{Processed: 40 + 5 + 3 + 2 + 2 + 30 + 4, Failed: 5 + 3 + 2 + 2 + 4, Retries: 3 + 2, Dead: 5 + 4 + 2}
	harness.Equal(t, "stats", got, want)
	var history [][]int
	ruby(t, url, `h = Sidekiq::Stats::History.new(2); show([h.processed.values, h.failed.values])`, &history)
	// of two days, should one have ended meanwhile
	if history[0][0]+history[0][1] != want.Processed || history[1][0]+history[1][1] != want.Failed {
		t.Errorf("history %v", history)
	}
	days := rdb.Keys(t.Context(), "stat:processed:*").Val()
	if len(days) == 0 {
		t.Error("no counter of a day")
	}
	for _, day := range days {
		if ttl := rdb.TTL(t.Context(), day).Val(); ttl < 157_000_000*time.Second {
			t.Errorf("%s lives %s", day, ttl)
		}
	}
	deaths := rec.find("death", "")
	harness.Equal(t, "deaths told to Go's handlers", len(deaths), 5+2)
}
