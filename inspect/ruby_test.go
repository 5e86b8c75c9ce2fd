package inspect_test

import (
	gocmp "cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	jobs "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// assorted fills a database with what the API reads: jobs pushed by Ruby itself
// and by hand, ties, odd texts, processes, running jobs, totals.
func assorted(t *testing.T, rdb *redis.Client, url string) {
	t.Helper()
	ruby(t, url, `
Sidekiq::Client.push("class" => "A::B", "queue" => "default", "args" => ["<&>\u2028", "\u{1F600}\u0000", 123456789012345678901234567890, 1.0, nil, {"b" => [1]}], "tags" => ["t", "é"])
Sidekiq::Client.push_bulk("class" => "Many", "queue" => "many", "args" => (0...130).map { |i| [i] })
Sidekiq::Client.push("class" => "Later", "args" => [1], "at" => Time.now.to_f + 500.25)
Sidekiq::Client.push("class" => "Later", "args" => [2], "at" => 1695225033.5352254)`)
	for n := range 120 {
		raw := failed(n, "many", n%3)
		if n == 7 {
			raw = strings.TrimSuffix(raw, "}") + `,"error_backtrace":"` + pack(`["a:1","b:2"]`) + `","display_class":"Shown"}`
		}
		add(t, rdb, "retry", 1695225036.2125871+float64(n/4), raw)
	}
	const wrapper = `"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"`
	add(t, rdb, "dead", 1695225098.323981,
		`{`+wrapper+`,"wrapped":"W","queue":"default","args":[{"job_class":"W","arguments":[1,{"a":2}]}],"jid":"aj1","created_at":1.5}`,
		`{`+wrapper+`,"wrapped":"ActionMailer::MailDeliveryJob","queue":"mailers","args":[{"arguments":["UserMailer","welcome","deliver_now",{"args":[5,6]}]}],"jid":"aj2"}`,
		`{"class":"Sealed","encrypt":true,"queue":"default","args":[1,"x"],"jid":"s","enqueued_at":2.5}`,
		"not a job é", string(jobs.KeepNotAJob([]byte(`["é", 1e3]`), "low", time.UnixMilli(1695225098321), troupe.TimestampsFloat)))
	add(t, rdb, "dead", 1695225099, failed(500, "default", 3))
	today := time.Now().UTC().Format(time.DateOnly)
	harness.OK(t, rdb.MSet(t.Context(), "stat:processed", 12345678901, "stat:failed", 17,
		"stat:processed:"+today, 5, "stat:failed:"+today, 2, "stat:failed:2020-02-29", 9).Err())
	threeVersions(t, rdb)
	for _, id := range []string{id6, id7, id8} {
		harness.OK(t, rdb.HSet(t.Context(), id+":workers", "gk"+id[3:4],
			fmt.Sprintf(`{"queue":"crit","payload":%q,"run_at":1695225%s}`, job(int(id[3]), "crit"), id[3:6])).Err())
	}
	harness.OK(t, rdb.Set(t.Context(), "dear-leader", id7, 0).Err())
}

// view is what the script below prints of an entry or a job.
func view(r *inspect.JobRecord) []any {
	class, _ := r.Payload.String("class")
	orNil := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	unix := func(at time.Time) any {
		if at.IsZero() {
			return nil
		}
		return scores.Of(at)
	}
	lines, err := r.ErrorBacktrace()
	if err != nil {
		lines = []string{err.Error()}
	}
	s := r.Summary()
	created := unix(s.CreatedAt)
	if created == nil {
		created = 0.0
	}
	args := r.Payload.Args()
	if r.Err != nil {
		args = s.Args
	}
	return []any{
		r.Raw, orNil(class), orNil(r.JID), orNil(r.Queue), args, orNil(s.Class), s.Args,
		unix(s.EnqueuedAt), created, append([]string{}, s.Tags...), lines,
	}
}

const rubyView = `
def view(j)
  [j.value, j.klass, j.jid, j.queue, j.args.dup, j.display_class, j.display_args, j.enqueued_at&.to_f, j.created_at.to_f, j.tags, j.error_backtrace]
end
def entry(e) = [e.score.to_s, e.at.to_f, e.error?] + view(e)
`

func entryView(e *inspect.SortedEntry) []any {
	score := scores.Format(e.Score)
	if !strings.Contains(score, ".") {
		score += ".0" // Ruby's text of a whole float
	}
	return append([]any{score, scores.Of(e.At), e.Summary().ErrorClass != ""}, view(&e.JobRecord)...)
}

func entryViews(entries []*inspect.SortedEntry) []any {
	out := []any{}
	for _, e := range entries {
		out = append(out, entryView(e))
	}
	return out
}

func TestRubyReadsTheSame(t *testing.T) {
	i, rdb, url := start(t)
	assorted(t, rdb, url)
	ctx := t.Context()
	today := time.Now().UTC() // midnight may pass before Go is asked
	r := ruby(t, url, rubyView+`
s = Sidekiq::Stats.new
out [s.processed, s.failed, s.scheduled_size, s.retry_size, s.dead_size, s.processes_size, s.workers_size, s.enqueued]
h = Sidekiq::Stats::History.new(30, Date.parse("`+today.Format(time.DateOnly)+`"))
out [h.processed.to_a, h.failed.to_a]
h = Sidekiq::Stats::History.new(3, Date.new(2020, 3, 1))
out [h.processed.to_a, h.failed.to_a]
out s.queues.to_a
out Sidekiq::Queue.all.map { |q| [q.name, q.size, q.map { |j| view(j) }] }
out [Sidekiq::RetrySet, Sidekiq::ScheduledSet, Sidekiq::DeadSet].map { |c| [c.new.name, c.new.size, c.new.map { |e| entry(e) }] }
q, rs, ds = Sidekiq::Queue.new("many"), Sidekiq::RetrySet.new, Sidekiq::DeadSet.new
out view(q.find_job(q.to_a[77].jid)), q.find_job("none")
out rs.fetch(1695225036.2125871).map { |e| entry(e) }, rs.fetch(1695225040.2125871..1695225044.5, "`+jid(17)+`").map { |e| entry(e) }
out rs.fetch(1695225040..1695225044).map { |e| entry(e) }
out rs.scan("RuntimeError").map { |e| entry(e) }.sort, rs.scan('*\[1?\]*').map { |e| entry(e) }.sort
out entry(rs.find_job("`+jid(90)+`")), rs.find_job("none"), entry(ds.find_job("aj2"))
ps = Sidekiq::ProcessSet.new
out ps.map { |p| [p.identity, p["hostname"], p["pid"], p.tag, p.labels, p.queues, p["concurrency"], p["busy"], p["beat"], p["started_at"], p.stopping?, p["rss"], p["rtt_us"], p["version"]] }
out [ps.size, ps.total_concurrency, ps.total_rss_in_kb, ps.leader]
out Sidekiq::WorkSet.new.map { |id, tid, w| [id, tid, w["queue"], w["run_at"], w["payload"]["jid"]] }, Sidekiq::WorkSet.new.size
out s.default_queue_latency, Sidekiq::Queue.new("many").latency, Sidekiq::Queue.new("none").latency, q.first.latency`)
	next := func() any {
		v := r[0]
		r = r[1:]
		return v
	}

	s := harness.Must(i.Stats(ctx))(t)
	same(t, "stats", []any{s.Processed, s.Failed, s.ScheduledSize, s.RetrySize, s.DeadSize, s.ProcessesSize, s.WorkersSize, s.Enqueued}, next())
	history := func(days []inspect.DayStats) any {
		var processed, failed []any
		for _, d := range days {
			date := d.Date.Format(time.DateOnly)
			processed, failed = append(processed, []any{date, d.Processed}), append(failed, []any{date, d.Failed})
		}
		return []any{processed, failed}
	}
	same(t, "history", history(harness.Must(i.History(ctx, 30, today))(t)), next())
	same(t, "history of 2020", history(harness.Must(i.History(ctx, 3, time.Date(2020, 3, 1, 12, 0, 0, 0, time.UTC)))(t)), next())
	var sizes []any
	for _, q := range harness.Must(i.Queues(ctx))(t) {
		sizes = append(sizes, []any{q.Name, q.Size})
	}
	same(t, "sizes", sizes, next())
	var queues []any
	byName := harness.Must(i.Queues(ctx))(t)
	slices.SortFunc(byName, func(a, b inspect.QueueSummary) int { return strings.Compare(a.Name, b.Name) })
	for _, q := range byName {
		var jobs []any
		for _, j := range all(t, q.Each(ctx)) {
			jobs = append(jobs, view(&j.JobRecord))
		}
		queues = append(queues, []any{q.Name, q.Size, jobs})
	}
	same(t, "queues", queues, next())
	var sets []any
	for _, set := range []*inspect.JobSet{i.RetrySet, i.ScheduledSet, i.DeadSet} {
		sets = append(sets, []any{set.Name, harness.Must(set.Size(ctx))(t), entryViews(all(t, set.Each(ctx)))})
	}
	same(t, "sets", sets, next())

	many := all(t, i.Queue("many").Each(ctx))
	same(t, "job of a queue", view(&many[77].JobRecord), next())
	same(t, "no job", nil, next())
	rs, ds := i.RetrySet, i.DeadSet
	same(t, "fetch", entryViews(all(t, rs.Fetch(ctx, 1695225036.2125871, 1695225036.2125871, ""))), next())
	same(t, "fetch of a range", entryViews(all(t, rs.Fetch(ctx, 1695225040.2125871, 1695225044.5, jid(17)))), next())
	same(t, "fetch of a long range", entryViews(all(t, rs.Fetch(ctx, 1695225040, 1695225044, ""))), next())
	for _, glob := range []string{"RuntimeError", `*\[1?\]*`} {
		found := all(t, rs.Scan(ctx, glob))
		slices.SortFunc(found, func(a, b *inspect.SortedEntry) int {
			return gocmp.Or(strings.Compare(scores.Format(a.Score), scores.Format(b.Score)), strings.Compare(a.Raw, b.Raw))
		})
		same(t, "scan", entryViews(found), next())
	}
	same(t, "find", entryView(harness.Must(rs.FindJob(ctx, jid(90)))(t)), next())
	same(t, "find none", nil, next())
	same(t, "find in dead", entryView(harness.Must(ds.FindJob(ctx, "aj2"))(t)), next())

	ps := harness.Must(i.Processes(ctx))(t)
	var processes []any
	unix := func(at time.Time) float64 { return scores.Of(at) }
	for _, p := range ps {
		version := any(p.Version)
		if version == "" {
			version = nil
		}
		concurrency := any(p.Concurrency)
		if p.Identity == id8 {
			concurrency = nil // 6.4.1 does not look where 8 has it
		}
		processes = append(processes, []any{
			p.Identity, p.Hostname, p.PID, p.Tag, append([]string{}, p.Labels...), p.Queues, concurrency, p.Busy, unix(p.Beat),
			unix(p.StartedAt), p.Stopping, p.RSS, p.RTT.Microseconds(), version,
		})
	}
	same(t, "processes", processes, next())
	leader, concurrency, rss := "", -4, int64(0)
	for _, p := range ps {
		if concurrency, rss = concurrency+p.Concurrency, rss+p.RSS; p.Leader {
			leader = p.Identity
		}
	}
	same(t, "totals", []any{s.ProcessesSize, concurrency, rss, leader}, next())
	var works []any
	for _, w := range harness.Must(i.Works(ctx))(t) {
		works = append(works, []any{w.Process, w.Thread, w.Queue, w.RunAt.Unix(), w.Job.JID})
	}
	same(t, "works", works, next())
	same(t, "busy", s.WorkersSize, next())
	for n, mine := range []time.Duration{
		harness.Must(i.Stats(ctx))(t).DefaultQueueLatency, harness.Must(i.Queue("many").Summary(ctx))(t).Latency, harness.Must(i.Queue("none").Summary(ctx))(t).Latency, many[0].Summary().Latency,
	} {
		if rubys, _ := next().(float64); math.Abs(mine.Seconds()-rubys) > 20 {
			t.Errorf("latency %d: Ruby says %v s, Go %v", n, rubys, mine)
		}
	}
}

var begin = time.Now()

// seeded is the database on which each operation is tried by both sides.
func seeded(t *testing.T, rdb *redis.Client) {
	t.Helper()
	for n := range 12 {
		add(t, rdb, "retry", 1695225036.5+float64(n/3), failed(n, []string{"a", "b"}[n%2], n%3))
		add(t, rdb, "schedule", 1895225036.25+float64(n/3), strings.Replace(job(100+n, "a"), `,"enqueued_at":1695224881.75`, "", 1))
		add(t, rdb, "dead", scores.Of(begin.Add(-time.Duration(n*20)*24*time.Hour)), failed(200+n, "c", 2))
		push(t, rdb, "q", job(300+n, "q"))
	}
	push(t, rdb, "other", job(400, "other"))
	harness.OK(t, rdb.MSet(t.Context(), "stat:processed", 50, "stat:failed", 20, "stat:failed:2020-02-29", 9).Err())
	threeVersions(t, rdb)
	harness.OK(t, rdb.SAdd(t.Context(), "processes", "dead:1:x").Err())
}

// Each operation leaves behind what Ruby's leaves behind.
func TestRubyDoesTheSame(t *testing.T) {
	done := func(t *testing.T) func(inspect.Outcome, error) {
		return func(got inspect.Outcome, err error) {
			t.Helper()
			if got != inspect.Done || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
		}
	}
	find := func(t *testing.T, set *inspect.JobSet, n int) *inspect.SortedEntry {
		t.Helper()
		return harness.Must(set.FindJob(t.Context(), jid(n)))(t)
	}
	rubyFind := func(set string, n int) string { return "Sidekiq::" + set + `.new.find_job("` + jid(n) + `")` }
	bulk := func(t *testing.T) func(inspect.Counts, error) {
		return func(_ inspect.Counts, err error) { t.Helper(); harness.OK(t, err) }
	}
	type operation struct {
		name string
		mine func(*testing.T, *inspect.Inspector)
		ruby string
	}
	ops := []operation{
		{"reset", func(t *testing.T, i *inspect.Inspector) { harness.OK(t, i.ResetStats(t.Context())) }, `Sidekiq::Stats.new.reset`},
		{"reset failed", func(t *testing.T, i *inspect.Inspector) { harness.OK(t, i.ResetStats(t.Context(), "failed")) }, `Sidekiq::Stats.new.reset("failed")`},
		{"clear a queue", func(t *testing.T, i *inspect.Inspector) { harness.Must(i.Queue("q").Clear(t.Context()))(t) }, `Sidekiq::Queue.new("q").clear`},
		{"delete a job", func(t *testing.T, i *inspect.Inspector) {
			for _, j := range all(t, i.Queue("q").Each(t.Context())) {
				if j.JID == jid(305) {
					done(t)(j.Delete(t.Context()))
				}
			}
		}, `Sidekiq::Queue.new("q").find_job("` + jid(305) + `").delete`},
		{"schedule", func(t *testing.T, i *inspect.Inspector) {
			p, err := troupe.ParsePayload([]byte(job(900, "a")))
			harness.OK(t, err)
			harness.OK(t, i.ScheduledSet.Schedule(t.Context(), time.Unix(1895225036, 500e6), p))
		}, `Sidekiq::ScheduledSet.new.schedule(Time.at(1895225036.5), JSON.parse('` + job(900, "a") + `'))`},
		{"add to queue", func(t *testing.T, i *inspect.Inspector) {
			done(t)(find(t, i.ScheduledSet, 104).AddToQueue(t.Context()))
		}, rubyFind("ScheduledSet", 104) + ".add_to_queue"},
		{"reschedule", func(t *testing.T, i *inspect.Inspector) {
			done(t)(find(t, i.ScheduledSet, 104).Reschedule(t.Context(), time.Unix(1895229999, 750e6)))
		}, rubyFind("ScheduledSet", 104) + ".reschedule(1895229999.75)"},
		{"clear a set", func(t *testing.T, i *inspect.Inspector) { harness.Must(i.DeadSet.Clear(t.Context()))(t) }, `Sidekiq::DeadSet.new.clear`},
		{"retry all", func(t *testing.T, i *inspect.Inspector) { bulk(t)(i.RetrySet.RetryAll(t.Context(), inspect.Bulk{})) }, `Sidekiq::RetrySet.new.retry_all`},
		{"kill all", func(t *testing.T, i *inspect.Inspector) { bulk(t)(i.RetrySet.KillAll(t.Context(), inspect.Bulk{})) }, `Sidekiq::RetrySet.new.kill_all`},
		{"retry all dead", func(t *testing.T, i *inspect.Inspector) { bulk(t)(i.DeadSet.RetryAll(t.Context(), inspect.Bulk{})) }, `Sidekiq::DeadSet.new.retry_all`},
		{"delete all", func(t *testing.T, i *inspect.Inspector) { bulk(t)(i.RetrySet.DeleteAll(t.Context(), inspect.Bulk{})) }, `Sidekiq::RetrySet.new.each(&:delete)`},
		{"signals", func(t *testing.T, i *inspect.Inspector) {
			p := harness.Must(i.Process(t.Context(), id7))(t)
			harness.OK(t, p.Quiet(t.Context()))
			harness.OK(t, p.Stop(t.Context()))
			harness.OK(t, p.DumpThreads(t.Context()))
		}, `p = Sidekiq::ProcessSet.new(false).find { |x| x.identity == "` + id7 + `" }; p.quiet!; p.stop!; p.dump_threads`},
	}
	for _, n := range []int{3, 4, 5, 11} { // three of a score; counts of 0, 1 and 2
		ops = append(ops,
			operation{fmt.Sprint("retry ", n), func(t *testing.T, i *inspect.Inspector) { done(t)(find(t, i.RetrySet, n).Retry(t.Context())) }, rubyFind("RetrySet", n) + ".retry"},
			operation{fmt.Sprint("kill ", n), func(t *testing.T, i *inspect.Inspector) { done(t)(find(t, i.RetrySet, n).Kill(t.Context())) }, rubyFind("RetrySet", n) + ".kill"},
			operation{fmt.Sprint("delete ", n), func(t *testing.T, i *inspect.Inspector) { done(t)(find(t, i.RetrySet, n).Delete(t.Context())) }, rubyFind("RetrySet", n) + ".delete"},
			operation{fmt.Sprint("retry dead ", n), func(t *testing.T, i *inspect.Inspector) { done(t)(find(t, i.DeadSet, 200+n).Retry(t.Context())) }, rubyFind("DeadSet", 200+n) + ".retry"},
			operation{fmt.Sprint("kill dead ", n), func(t *testing.T, i *inspect.Inspector) { done(t)(find(t, i.DeadSet, 200+n).Kill(t.Context())) }, rubyFind("DeadSet", 200+n) + ".kill"},
		)
	}
	theirs := make([]*redis.Client, len(ops))
	var script strings.Builder
	base := ""
	for n, op := range ops {
		rdb, url := redistest.New(t)
		seeded(t, rdb)
		theirs[n], base = rdb, url
		fmt.Fprintf(&script, "Sidekiq.redis = {url: %q}\n%s\n", url, op.ruby)
	}
	ruby(t, base, script.String())
	for n, op := range ops {
		t.Run(op.name, func(t *testing.T) {
			i, rdb, _ := start(t)
			i.DeadMax, i.DeadTimeout = 10_000, 180*24*time.Hour // Ruby's
			seeded(t, rdb)
			untouched := snapshot(t, rdb)
			op.mine(t, i)
			mine := snapshot(t, rdb)
			if diff := cmp.Diff(snapshot(t, theirs[n]), mine); diff != "" {
				t.Errorf("-Ruby +Go:\n%s", diff)
			}
			if cmp.Equal(untouched, mine) {
				t.Error("nothing has happened")
			}
		})
	}
}

// Ruby and Go work on one set at once; Ruby's own way of moving an entry takes
// its neighbours of the same score out for a moment, so each has its own score.
func TestGoAndRubyRetryAllTogether(t *testing.T) {
	i, rdb, url := start(t)
	const jobs = 2000
	for k := range jobs {
		add(t, rdb, "retry", float64(k), failed(k, "a", 0))
	}
	ctx := t.Context()
	sub := rdb.Subscribe(ctx, "go")
	defer sub.Close()
	harness.Must(sub.Receive(ctx))(t)
	var counts inspect.Counts
	var err error
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		if _, err = sub.ReceiveMessage(ctx); err == nil {
			counts, err = i.RetrySet.RetryAll(ctx, inspect.Bulk{})
		}
	}()
	moved := ruby(t, url, `
n = 0
Sidekiq::RetrySet.new.each do |e|
  e.retry
  n += 1
  Sidekiq.redis { |c| c.publish("go", "1") } if n == 100
  next unless n == 500 # the others are left until Go is at it
  Sidekiq.redis { |c| 2000.times { break if c.zcard("retry") < `+fmt.Sprint(jobs)+` - n; sleep 0.01 } }
end
Sidekiq::RetrySet.new.retry_all
out 1`)
	<-finished
	harness.OK(t, err)
	if len(moved) != 1 || counts.Done == 0 || rdb.Exists(ctx, "retry").Val() != 0 {
		t.Errorf("got %+v", counts)
	}
	once(t, rdb, jobs)
}

func TestRubyRunsOnWithWhatGoHasRetried(t *testing.T) {
	i, rdb, url := start(t)
	add(t, rdb, "retry", 5, failed(1, "a", 0))
	harness.Must(i.RetrySet.RetryAll(t.Context(), inspect.Bulk{}))(t)
	got := ruby(t, url, `
j = Sidekiq::Queue.new("a").first
out j["retry_count"], j.latency.between?(0, 60), JSON.generate(JSON.parse(j.value)) == j.value, j["error_message"]`)
	if want := []any{-1.0, true, true, "oh <no> é"}; !cmp.Equal(got, want) {
		text, _ := json.Marshal(got)
		t.Errorf("got %s", text)
	}
}
