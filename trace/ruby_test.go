package trace_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/trace"
)

// The Ruby side of these tests is a real Sidekiq. Its instrumentation is not the real gem,
// which needs Ruby 3.3, but testdata/tracing.rb, made after its source.

// rubySpan is a span of testdata/tracing.rb.
type rubySpan struct {
	Name, Kind, Trace, ID, Parent, Error string
	Links                                [][2]string // trace and span
}

func rubySpans(t *testing.T, rdb *redis.Client) map[string][]rubySpan {
	t.Helper()
	out := map[string][]rubySpan{}
	for _, text := range rdb.LRange(t.Context(), "spans", 0, -1).Val() {
		var s rubySpan
		harness.OK(t, json.Unmarshal([]byte(text), &s))
		out[s.Name] = append(out[s.Name], s)
	}
	return out
}

// ruby runs a script with testdata/tracing.rb.
func ruby(t *testing.T, url, script string) {
	t.Helper()
	redistest.Ruby(t, url, "require './testdata/tracing.rb'\n"+script)
}

func linkedToRuby(t *testing.T, s sdk.ReadOnlySpan, to rubySpan) {
	t.Helper()
	if l := s.Links(); len(l) != 1 || l[0].SpanContext.TraceID().String() != to.Trace || l[0].SpanContext.SpanID().String() != to.ID {
		t.Errorf("%s is linked to %v, want %+v", s.Name(), l, to)
	}
}

// A job that Ruby pushes fails once in Go, then pushes one that fails once in Ruby, then
// pushes one to Go. The poller of Go brings both retries back.
func TestFromRubyToGoToRubyThroughRetries(t *testing.T) {
	rdb, url := redistest.New(t)
	ruby(t, url, "0") // or skip
	r := record()
	c := client.New(rdb, trace.Client(r.config()))
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "FirstStep", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		if p.Failures() == 0 {
			return errors.New("once")
		}
		_, err := c.PushClass(ctx, "RubyStep", nil, client.Queue("ruby"))
		return err
	}), troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(time.Hour) }})
	var done atomic.Bool
	troupe.HandleClass(&jobs, "LastStep", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		done.Store(true)
		return nil
	}))
	kit := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: &jobs, Capsules: []actors.Capsule{{Concurrency: 1, Queues: actors.Strict{"go"}}},
		Middleware: []troupe.Middleware{trace.Middleware(r.config())},
	})
	sidekiq := procs.Sidekiq(t, url, "testdata/tracing.rb", "tracing.rb: started", "-q", "ruby", "-c", "1")

	ruby(t, url, `Tracing.span("request", "server") { Sidekiq::Client.push("class" => "FirstStep", "queue" => "go", "args" => []) }`)
	for _, class := range []string{"FirstStep", "RubyStep"} {
		testkit.Await(t, "the retry of "+class, func() bool {
			for _, member := range rdb.ZRange(t.Context(), "retry", 0, -1).Val() {
				if strings.Contains(member, class) { // it is due now, and the poller of Go hears of it
					return rdb.ZAddXX(t.Context(), "retry", redis.Z{Score: 1, Member: member}).Err() == nil
				}
			}
			return false
		})
	}
	testkit.Await(t, "the last step", done.Load)
	kit.Stop()
	sidekiq.Stop(time.Minute)

	spans := rubySpans(t, rdb)
	if len(spans["request"]) != 1 || len(spans["go publish"]) != 2 || len(spans["ruby process"]) != 2 {
		t.Fatalf("the spans of Ruby: %+v", spans)
	}
	first, last := spans["go publish"][0], spans["go publish"][1]
	if request := spans["request"][0]; first.Parent != request.ID {
		t.Errorf("Ruby's push is below %s, want %+v", first.Parent, request)
	}
	runs := r.named("process go")
	if len(runs) != 3 {
		t.Fatalf("there are %s", r)
	}
	linkedToRuby(t, runs[0], first)
	linkedToRuby(t, runs[1], first)
	linkedToRuby(t, runs[2], last)
	push := r.only(t, "send ruby")
	childOf(t, push, runs[1])
	for i, run := range spans["ruby process"] {
		want := [2]string{push.SpanContext().TraceID().String(), push.SpanContext().SpanID().String()}
		if len(run.Links) != 1 || run.Links[0] != want || run.Parent != "" {
			t.Errorf("run %d in Ruby is linked to %v, want %v", i+1, run.Links, want)
		}
		if (run.Error == "ArgumentError") != (i == 0) {
			t.Errorf("run %d in Ruby ended with %q", i+1, run.Error)
		}
	}
	if run := spans["ruby process"][1]; last.Parent != run.ID || last.Trace != run.Trace {
		t.Errorf("Ruby's last push is below %s, want %+v", last.Parent, run)
	}
}

// A Ruby poller pushes a due job through client middleware, which writes the context of a
// span that nobody has: the link to the push is lost.
func TestARubyPollerLosesTheLink(t *testing.T) {
	rdb, url := redistest.New(t)
	r := record()
	ctx, _ := r.request(t.Context())
	harness.Must(client.New(rdb, trace.Client(r.config())).Push(ctx, order{1}, client.In(time.Hour)))(t)
	member := rdb.ZRange(t.Context(), "schedule", 0, -1).Val()[0]
	rdb.ZAdd(t.Context(), "schedule", redis.Z{Score: 1, Member: member})
	ruby(t, url, `require "sidekiq/scheduled"; Tracing.untraced { Sidekiq::Scheduled::Enq.new.enqueue_jobs }`)
	before, after := carried(parsed(t, member)), carried(parsed(t, rdb.RPop(t.Context(), "queue:orders").Val()))
	if after == "" || after[:35] == before[:35] || !strings.HasSuffix(after, "-00") {
		t.Errorf("it carried %s, and carries %s", before, after)
	}
	if spans := rubySpans(t, rdb); len(spans) != 0 {
		t.Errorf("the spans of Ruby: %+v", spans)
	}
}
