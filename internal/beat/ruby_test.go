package beat

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func expect(t *testing.T, got any, want string) {
	t.Helper()
	var wanted any
	harness.OK(t, json.Unmarshal([]byte(want), &wanted))
	if !reflect.DeepEqual(got, wanted) {
		text, _ := json.Marshal(got)
		t.Errorf("ruby\n got %s\nwant %s", text, want)
	}
}

func TestRubyReadsTheProcessItsWorkAndTheTotals(t *testing.T) {
	rdb, url := redistest.New(t)
	s := busyState()
	s.WorkersKey = true
	s.Work = s.Work[:1]
	s.Info.Labels = []string{"reliable"}
	s.Work[0].Payload = []byte(`{"class":"SlowJob","args":[13,"é"],"jid":"ea451571fa051d845beeafef"}`)
	mustBeat(t, rdb, s)
	harness.OK(t, NewFlusher(id).Flush(t.Context(), rdb, Counts{Processed: 7, Failed: 2}, time.Now()))
	got := redistest.RubyJSON[any](t, url, `
		p = Sidekiq::ProcessSet.new.first
		w = Sidekiq::Workers.new.to_a
		s = Sidekiq::Stats.new
		h = Sidekiq::Stats::History.new(1)
		print JSON.generate(
		  process: %w[hostname started_at pid tag concurrency queues labels identity busy beat quiet rss].map { |k| p[k] },
		  stopping: p.stopping?, label: p.labels, total: Sidekiq::ProcessSet.new.total_concurrency,
		  work: w.map { |pid, tid, work| [pid, tid, work["queue"], work["run_at"], work["payload"]["class"], work["payload"]["args"]] },
		  size: Sidekiq::Workers.new.size,
		  stats: [s.processed, s.failed, s.processes_size, s.workers_size],
		  today: [h.processed.values, h.failed.values])`)
	expect(t, got, `{
		"process": ["vm", 1795225092.901522, 24128, "mytag", 4, ["crit","default","serial","serial2"], ["reliable"],
			"vm:24128:acf4dc59d44a", 1, 1795225102.9048576, "false", 29476],
		"stopping": false, "label": ["reliable"], "total": 4,
		"work": [["vm:24128:acf4dc59d44a", "glk", "default", 1795225012, "SlowJob", [13, "é"]]],
		"size": 1, "stats": [7, 2, 1, 1], "today": [[7], [2]]}`)
}

func TestRubysButtonsArriveAndTheProcessLeaves(t *testing.T) {
	rdb, url := redistest.New(t)
	s := busyState()
	mustBeat(t, rdb, s)
	expect(t, redistest.RubyJSON[any](t, url, `
		p = Sidekiq::ProcessSet.new.first
		p.quiet!; p.dump_threads; p.stop!
		print "[]"`), `[]`)
	harness.Equal(t, "signals", strings.Join(mustBeat(t, rdb, s).Signals, " "), "TSTP TTIN TERM")
	s.Quiet = true
	mustBeat(t, rdb, s)
	expect(t, redistest.RubyJSON[any](t, url, `print JSON.generate(Sidekiq::ProcessSet.new.map { |p| p.stopping? })`), `[true]`)
	harness.OK(t, Clear(t.Context(), rdb, id))
	expect(t, redistest.RubyJSON[any](t, url, `print JSON.generate([Sidekiq::ProcessSet.new.size, Sidekiq::Workers.new.to_a])`), `[0, []]`)
}
