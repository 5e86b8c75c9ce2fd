package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestSecondSignalChangesNothing(t *testing.T) {
	o := quickly()
	o.rate = 200
	var out harness.Buffer
	s := harness.Must(newShow(o, newDisplay(o, &out, nil)))(t)
	r := runShow(t, s)
	harness.Await(t, "the unresponsive job runs", s.measures.unresponsive.Load)
	harness.Await(t, "jobs were processed and measured", func() bool {
		return s.daemon.Stats().Processed > 20 && s.measures.start.percentiles(time.Now()).N > 20
	})
	r.signals <- syscall.SIGINT
	harness.Await(t, "the stop has begun", func() bool { _, ok := s.measures.stopping(); return ok })
	r.signals <- syscall.SIGINT
	r.signals <- syscall.SIGTERM
	harness.OK(t, r.end(t))
	_, report, ok := strings.Cut(out.String(), "\nthe demo ran ")
	if !ok {
		t.Fatalf("no report:\n%s", out.String())
	}
	var jid string
	for line := range strings.Lines(report) {
		f := strings.Fields(line)
		if len(f) > 2 && f[0] == "requeued" && f[2] == "Demo::Unresponsive" {
			jid = f[1]
		}
	}
	if jid == "" || !strings.Contains(report, "abandoned   "+jid+" Demo::Unresponsive (queue demo-batch)") {
		t.Errorf("the unresponsive job is not requeued and abandoned:\n%s", report)
	}
}

func TestFor(t *testing.T) {
	var out harness.Buffer
	cmd := Command()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--for", "2s", "--timeout", "100ms"})
	began := time.Now()
	harness.OK(t, cmd.ExecuteContext(context.Background()))
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, want := range []string{"demo phase=running", "the demo ran ", "stopped in", "the embedded redis ends"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	// it begins with what there is to see, and the tree is drawn before the figures
	before, _, _ := strings.Cut(out.String(), "demo phase=running")
	if !strings.HasPrefix(before, "A daemon with its supervision tree") || !strings.Contains(before, "\n├─ default ") {
		t.Errorf("it begins with:\n%s", before)
	}
}

func TestJSONLines(t *testing.T) {
	o := quickly()
	o.format = formatJSON
	var out harness.Buffer
	s := harness.Must(newShow(o, newDisplay(o, &out, nil)))(t)
	r := runShow(t, s)
	harness.Await(t, "the unresponsive job runs", s.measures.unresponsive.Load)
	r.signals <- syscall.SIGTERM
	harness.OK(t, r.end(t))
	drained := false
	for line := range strings.Lines(out.String()) {
		var fields struct {
			Message string
			Drain   struct{ Requeued, Abandoned []string }
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if fields.Message == "stopped" {
			drained = len(fields.Drain.Abandoned) == 1 && len(fields.Drain.Requeued) >= 1
		}
	}
	if !drained {
		t.Errorf("no drain report:\n%s", out.String())
	}
}

func TestQuiet(t *testing.T) {
	s := harness.Must(newShow(quickly(), newDisplay(quickly(), new(harness.Buffer), nil)))(t)
	r := runShow(t, s)
	harness.Await(t, "the unresponsive job runs", s.measures.unresponsive.Load)
	r.signals <- osproc.Quiet
	harness.Await(t, "the producer has ended", func() bool { return s.pushing.Err() != nil })
	harness.Await(t, "all but the unresponsive and the long job have ended", func() bool { return s.daemon.Stats().Busy <= 2 })
	select {
	case <-s.daemon.Done():
		t.Error("the demo ended")
	default:
	}
	r.signals <- syscall.SIGINT
	harness.OK(t, r.end(t))
}

func TestSignalWhileStarting(t *testing.T) {
	s := harness.Must(newShow(quickly(), newDisplay(quickly(), new(harness.Buffer), nil)))(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := runShow(t, s)
	r.signals <- syscall.SIGINT
	harness.Check(t, r.end(t))
	s = harness.Must(newShow(quickly(), newDisplay(quickly(), new(harness.Buffer), nil)))(t)
	if err := s.run(ctx, nil); err != nil {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestRealRedis(t *testing.T) {
	rdb, url := redistest.New(t)
	ctx := context.Background()
	// what earlier demos left must not hold this one's processors
	c := client.New(rdb)
	for range 3 {
		for _, args := range []interface{ Class() string }{unresponsive{"earlier"}, long{"earlier", longMillis}} {
			harness.Must(c.Push(ctx, args, client.Queue(queueBatch)))(t)
		}
	}
	if _, err := c.Push(ctx, quick{1}, client.Queue("default")); err != nil { // somebody else's
		t.Fatal(err)
	}
	o := quickly()
	o.redis = url
	var out harness.Buffer
	s := harness.Must(newShow(o, newDisplay(o, &out, nil)))(t)
	r := runShow(t, s)
	harness.Await(t, "the unresponsive job runs", s.measures.unresponsive.Load)
	harness.Await(t, "a census", func() bool { return !s.census.latest().At.IsZero() })
	r.signals <- syscall.SIGINT
	harness.OK(t, r.end(t))
	harness.Equal(t, "jobs in a queue of others", rdb.LLen(ctx, "queue:default").Val(), 1)
	for _, want := range []string{"pushes jobs into these queues", "left in the queues demo-critical, demo, demo-batch"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--rate 0", "expected a whole number from 1 to 1000"},
		{"--rate 1001", "expected a whole number from 1 to 1000"},
		{"--rate x", "invalid argument"},
		{"--concurrency 0", "expected a whole number from 1 to 1000"},
		{"--timeout 0s", "expected seconds"},
		{"--for -1s", "expected 0, seconds"},
		{"--for soon", "invalid argument"},
		{"--log xml", "expected one of auto, console, json"},
		{"--redis=", "--redis is empty"},
		{"--redis localhost", `redis URL "localhost": the scheme is missing`},
		{"--redis redis://u:secret@h/x", "the path is not a database number"},
		{"--redis redis://127.0.0.1:1/0", "redis at 127.0.0.1:1/0 cannot be reached"},
		{"extra", "got 1 argument, expected: demo"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			cmd := Command()
			cmd.SetOut(new(harness.Buffer))
			cmd.SetErr(new(harness.Buffer))
			cmd.SetArgs(strings.Fields(tt.args))
			err := cmd.ExecuteContext(context.Background())
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, expected %q", err, tt.want)
			}
		})
	}
}

func TestEmbeddedRedisAgesItsKeys(t *testing.T) {
	s := harness.Must(openStore(""))(t)
	defer s.close()
	ctx := context.Background()
	harness.OK(t, s.client.Set(ctx, "lease", "1", 20*time.Millisecond).Err())
	harness.Await(t, "the key has expired", func() bool { return s.client.Exists(ctx, "lease").Val() == 0 })
	if !strings.Contains(s.place(), s.server.Port()) {
		t.Errorf("place is %q", s.place())
	}
}

func TestProducerWaitsForFullQueues(t *testing.T) {
	st := harness.Must(openStore(""))(t)
	defer st.close()
	b, c := &measures{}, &census{rdb: st.client}
	c.last.Store(&counts{Enqueued: maxBacklog})
	p := &producer{client: client.New(st.client), measures: b, census: c, rate: maxRate}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.work(ctx) }()
	harness.Await(t, "the producer waits", b.full.Load)
	if n := b.pushed.Load(); n != 1 { // the unresponsive one, before it looked
		t.Errorf("%d pushed into full queues", n)
	}
	c.last.Store(&counts{})
	harness.Await(t, "it goes on", func() bool { return b.pushed.Load() > 10 })
	cancel()
	<-done
}

func TestFinale(t *testing.T) {
	f := finale{
		last: picture(5), length: 10 * time.Second, restarts: 3, counted: true,
		report: actors.DrainReport{
			Requeued: []actors.JobRef{{JID: "0123456789abcdef01234567", Class: "Demo::Unresponsive", Queue: queueBatch}}, Elapsed: 6 * time.Second,
		},
	}
	f.report.Abandoned = f.report.Requeued
	here, away := f, f
	here.embedded = true
	away.counted = false
	golden(t, "finale.golden", fmt.Sprintf("%s\n%s\n%s", f.text(), here.text(), away.text()))
}
