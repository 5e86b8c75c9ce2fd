package e2e

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// process is what Ruby's ProcessSet shows.
type process struct {
	Hostname, Tag, Identity, Quiet string
	PID, Concurrency, Busy, RSS    int
	StartedAt, Beat                float64
	Queues, Labels                 []string
	Stopping                       bool
}

const showProcesses = `show(Sidekiq::ProcessSet.new.map { |p| {
  Hostname: p["hostname"], Tag: p.tag, Identity: p.identity, Quiet: p["quiet"], PID: p["pid"], Concurrency: p["concurrency"],
  Busy: p["busy"], RSS: p["rss"], StartedAt: p["started_at"], Beat: p["beat"], Queues: p["queues"], Labels: p.labels, Stopping: p.stopping?} })`

func TestRubySeesTheProcess(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	began := time.Now()
	p := startWorker(t, workerSpec{Redis: url, Records: rec.url, Tag: "shop", Labels: []string{"go", "reliable"}, Capsules: []capsuleSpec{
		{Concurrency: 3, Queues: []string{"default"}}, {Name: "serial", Concurrency: 1, Queues: []string{"ledger", "default"}},
	}})
	identity := p.Ready()
	jid, raw := push(t, rdb, "HangOnce", `["é",13]`)
	rec.await(soon, 1, "start", jid)
	push(t, rdb, "Record", "[]")
	rec.await(soon, 2, "start", "")
	testkit.Await(t, "a beat with the job in it", func() bool { return rdb.HGet(t.Context(), identity, "busy").Val() == "1" })

	var seen []process
	ruby(t, url, showProcesses, &seen)
	if len(seen) != 1 {
		t.Fatalf("Ruby sees %d processes", len(seen))
	}
	s := seen[0]
	host, _ := os.Hostname()
	if s.Hostname != host || s.Tag != "shop" || s.Identity != identity || s.Quiet != "false" || s.PID != p.PID() ||
		s.Concurrency != 4 || s.Busy != 1 || s.RSS < 1000 || s.RSS > 4_000_000 || s.Stopping ||
		s.StartedAt < float64(began.Unix())-1 || s.Beat < s.StartedAt ||
		mustJSON(s.Queues) != `["default","ledger"]` || mustJSON(s.Labels) != `["go","reliable"]` {
		t.Errorf("Ruby sees %+v", s)
	}
	work := rdb.HGetAll(t.Context(), identity+":work").Val()
	if len(work) != 1 {
		t.Errorf("work of the process: %v", work)
	}
	for _, text := range work {
		var w struct {
			Queue, Payload string
			RunAt          int64 `json:"run_at"`
		}
		if err := json.Unmarshal([]byte(text), &w); err != nil || w.Queue != "default" || w.Payload != raw || w.RunAt < began.Unix() {
			t.Errorf("work %s (%v), want payload %s", text, err, raw)
		}
	}
	var now struct{ Processes, Workers, Size int }
	ruby(t, url, `s = Sidekiq::Stats.new; show(Processes: s.processes_size, Workers: s.workers_size, Size: Sidekiq::Workers.new.size)`, &now)
	if now.Processes != 1 || now.Workers != 1 || now.Size != 1 {
		t.Errorf("Ruby counts %+v", now)
	}
}

// The buttons of Sidekiq's UI: obeyed within a beat, and shown at once.
func TestRubysButtonsAreObeyed(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	p := startWorker(t, workerSpec{Redis: url, Records: rec.url, Timeout: time.Second})
	identity := p.Ready()
	testkit.Await(t, "the first beat", func() bool { return rdb.SIsMember(t.Context(), "processes", identity).Val() })
	jid, raw := push(t, rdb, "HangOnce", "[]")
	rec.await(soon, 1, "start", jid)

	press := func(what string) time.Time {
		t.Helper()
		ruby(t, url, `Sidekiq::ProcessSet.new.each { |p| p.`+what+` }`, nil)
		return time.Now()
	}
	pressed := press("dump_threads; p.quiet!")
	p.AwaitLog("dump")
	p.AwaitLog("quiet: no new jobs will be fetched")
	obeyed := time.Since(pressed)
	testkit.Await(t, "quiet is shown", func() bool { return rdb.HGet(t.Context(), identity, "quiet").Val() == "true" })
	t.Logf("quiet! was obeyed after %s and shown after %s", obeyed, time.Since(pressed))
	if time.Since(pressed) > 18*time.Second || time.Since(pressed)-obeyed > 8*time.Second { // there are 10 s between beats
		t.Errorf("quiet! was obeyed after %s and shown after %s", obeyed, time.Since(pressed))
	}
	var seen []process
	ruby(t, url, showProcesses, &seen)
	if len(seen) != 1 || !seen[0].Stopping {
		t.Errorf("Ruby sees %+v", seen)
	}
	if _, waiting := push(t, rdb, "Record", "[]"); waiting == "" || !p.Running() {
		t.Error("a job was fetched after quiet, or the process has ended")
	}

	pressed = press("stop!")
	harness.Equal(t, "exit code after stop!", p.Exit(soon), 0)
	took := p.Ended().Sub(pressed)
	t.Logf("stop! ended the process after %s", took)
	if took > 20*time.Second { // a beat, the timeout, the grace, and not two beats
		t.Errorf("stop! ended the process after %s", took)
	}
	ruby(t, url, showProcesses, &seen)
	if len(seen) != 0 {
		t.Errorf("Ruby sees %+v after the end", seen)
	}
	harness.Equal(t, "the job that hung is not the next one", rdb.LIndex(t.Context(), "queue:default", -1).Val(), raw)
}

// An embedded daemon ignores them: its process belongs to somebody else.
func TestEmbeddedIgnoresTheButtons(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	p := startWorker(t, workerSpec{Redis: url, Records: url, Embedded: true})
	identity := p.Ready()
	if err := rdb.LPush(t.Context(), identity+"-signals", "TERM", "TSTP").Err(); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the signals are taken", func() bool { return len(p.Logged("ignored a remote signal: this process is embedded")) == 2 })
	push(t, rdb, "Record", "[]")
	clean(t, rdb)
}
