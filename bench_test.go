package troupe

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/jobctx"
)

// benchPayload is what Ruby pushes for perform_async("bob", 5).
var benchPayload = []byte(`{"retry":true,"queue":"default","class":"HardJob","args":["bob",5],` +
	`"jid":"0d6ec0d6a7e2450f8a158dc8","created_at":1795224881.1534805,"enqueued_at":1795224881.153557}`)

// benchTask is an argument list of numbers, as a job that carries ids has.
type benchTask struct {
	Index int64  `arg:"0"`
	At    int64  `arg:"1"`
	Sleep int64  `arg:"2"`
	Pad   string `arg:"3"`
}

func (benchTask) Class() string { return "Bench" }

var benchTaskPayload = []byte(`{"retry":true,"queue":"default","class":"Bench","args":[123456,0,0,""],` +
	`"jid":"b4a577edbccf1d805744efa9","created_at":1763754000.1534805,"enqueued_at":1763754000.153557}`)

type benchArgs struct {
	Name  string `arg:"0"`
	Count int    `arg:"1"`
}

func (benchArgs) Class() string { return "HardJob" }

func BenchmarkParsePayload(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchPayload)))
	for b.Loop() {
		if _, err := ParsePayload(benchPayload); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUnmarshalStruct is what ParsePayload is measured against.
func BenchmarkUnmarshalStruct(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchPayload)))
	for b.Loop() {
		var job struct {
			Class, JID, Queue string
			Retry, Args       json.RawMessage
		}
		if err := json.Unmarshal(benchPayload, &job); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRetryEdit(b *testing.B) {
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		p, _ := ParsePayload(benchPayload)
		p.SetString("error_message", "connection refused")
		p.SetString("error_class", "net.OpError")
		p.SetTime("failed_at", now, TimestampsFloat)
		p.SetInt("retry_count", 0)
		_ = p.Bytes()
	}
}

func BenchmarkDecodeArgs(b *testing.B) {
	raw := json.RawMessage(`["bob",5]`)
	var args benchArgs
	b.ReportAllocs()
	for b.Loop() {
		if err := DecodeArgs(raw, &args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTypedHandler(b *testing.B) {
	var r Registry
	Handle(&r, func(context.Context, *Job[benchArgs]) error { return nil })
	p, _ := ParsePayload(benchPayload)
	b.ReportAllocs()
	for b.Loop() {
		e, _ := r.Lookup(p.HandlerClass())
		if err := e.Handler.Perform(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadJob reads what a daemon reads of a job that succeeds.
func BenchmarkReadJob(b *testing.B) {
	var r Registry
	Handle(&r, func(context.Context, *Job[benchTask]) error { return nil })
	e, _ := r.Lookup("Bench")
	ctx := context.WithValue(b.Context(), jobctx.Info{}, &JobInfo{Queue: "default"})
	b.ReportAllocs()
	for b.Loop() {
		p, err := ParsePayload(benchTaskPayload)
		if err != nil {
			b.Fatal(err)
		}
		readByDaemon(p)
		if err := e.Handler.Perform(ctx, p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadFields is the part of BenchmarkReadJob that looks fields up
// before the handler.
func BenchmarkReadFields(b *testing.B) {
	p, _ := ParsePayload(benchTaskPayload)
	b.ReportAllocs()
	for b.Loop() {
		readByDaemon(p)
	}
}

func readByDaemon(p *Payload) (class, display, wrapped, jid string, failures int) {
	if _, ok := p.String("log_level"); ok {
		panic("a level of its own")
	}
	return p.HandlerClass(), p.DisplayClass(), p.str("wrapped"), p.JID(), p.Failures()
}
