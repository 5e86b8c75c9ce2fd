package retry

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// traced is an error with a stack.
type traced []string

func (traced) Error() string         { return "traced" }
func (e traced) Backtrace() []string { return e }

// unpack reads an error_backtrace back.
func unpack(t *testing.T, text string) (lines []string) {
	t.Helper()
	packed, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		t.Fatalf("not strict base64: %v: %q", err, text)
	}
	z := harness.Must(zlib.NewReader(bytes.NewReader(packed)))(t)
	plain := harness.Must(io.ReadAll(z))(t)
	if err := json.Unmarshal(plain, &lines); err != nil {
		t.Fatalf("%v: %s", err, plain)
	}
	return lines
}

func TestErrorBacktrace(t *testing.T) {
	stack := traced{"a.go:1:in `main.a'", "b.go:2:in `main.b'", "c.go:3:in `main.\xff'"}
	all := []string{stack[0], stack[1], "c.go:3:in `main.\ufffd'"}
	for _, tt := range []struct {
		payload string
		class   int
		err     error
		want    []string
	}{
		{`{"backtrace":true}`, 0, stack, all},
		{`{"backtrace":2}`, -1, stack, all[:2]},
		{`{"backtrace":"2"}`, 0, stack, all[:2]},
		{`{"backtrace":99}`, 0, stack, all},
		{`{"backtrace":1.9}`, 0, stack, all[:1]},
		{`{"backtrace":-1}`, 0, stack, all},
		{`{"backtrace":1e99}`, 0, stack, all},
		{`{"backtrace":0}`, -1, stack, nil},
		{`{"backtrace":false}`, -1, stack, nil},
		{`{"backtrace":"many"}`, -1, stack, nil},
		{`{"backtrace":[]}`, -1, stack, nil},
		{`{"backtrace":null}`, 1, stack, all[:1]},
		{`{}`, -1, stack, all},
		{`{}`, 1, stack, all[:1]},
		{`{}`, 0, stack, nil},
		{`{"backtrace":true}`, 0, boom, nil},
		{`{"backtrace":true}`, 0, panicky{}, nil},
		{`{"backtrace":true}`, 0, troupe.Kill(stack), all},
	} {
		d := decide(t, tt.payload, func(f *Failure) { f.Err, f.Options.Backtrace = tt.err, tt.class })
		text, stored := fields(t, d.Payload).String("error_backtrace")
		if stored != (tt.want != nil) {
			t.Errorf("%s, class %d: stored %v", tt.payload, tt.class, stored)
		} else if stored && !slices.Equal(unpack(t, text), tt.want) {
			t.Errorf("%s, class %d: %q", tt.payload, tt.class, unpack(t, text))
		}
	}
}

func TestRubyReadsTheEntriesAndKeepsTheirBytes(t *testing.T) {
	rdb, url := redistest.New(t)
	stack := traced(slices.Repeat([]string{"/app/job.go:42:in `main.(*Job).Perform'", "é\u2028<>"}, 40)) // longer than a line of base64
	in := Failure{
		Raw: []byte(`{"retry":3,"queue":"default","backtrace":true,"class":"HardJob","args":[1,"é<&>"],` +
			`"jid":"1d568ab56a49fd934a79f42b","created_at":1795225014.209691,"enqueued_at":1795225014.2097554}`),
		FetchedFrom: "default", Err: stack,
	}
	set := func(key string, d Decision) {
		t.Helper()
		harness.OK(t, rdb.ZAdd(t.Context(), key, redis.Z{Score: d.Score, Member: d.Payload}).Err())
	}
	first := Policy{}.Decide(now, 0, in)
	set(keys.Retry, first)
	in.Raw = first.Payload
	set(keys.Retry, Policy{}.Decide(now, 0, in))
	in.Err = troupe.Kill(rubyError{"Net::ReadTimeout", "\x00 \"quoted\" \u2028 🎭"})
	set(keys.Dead, Policy{}.Decide(now, 0, in))

	got := redistest.Ruby(t, url, `
		entries = Sidekiq::RetrySet.new.to_a + Sidekiq::DeadSet.new.to_a
		entries.each do |e|
		  abort "bytes change: #{e.value}" unless JSON.generate(JSON.parse(e.value)) == e.value
		end
		retries = Sidekiq::RetrySet.new.sort_by { |e| e["retry_count"] }
		dead = Sidekiq::DeadSet.new.first
		print JSON.generate(
		  trace: retries.map { |e| e.error_backtrace.size }, line: retries[0].error_backtrace[0..1],
		  counts: retries.map { |e| e["retry_count"] }, at: retries.map { |e| e["failed_at"] },
		  retried: retries.map { |e| e["retried_at"] }, klass: retries[0].klass, args: retries[0].args,
		  late: retries.all? { |e| e.at.to_f > 1795225014 + 15 },
		  dead: [dead["error_class"], dead["error_message"], dead.jid, dead.at.to_i, dead.queue])`)
	want := `{"trace":[80,80],"line":["/app/job.go:42:in ` + "`main.(*Job).Perform'" + `","é` + "\u2028" + `<>"],` +
		`"counts":[0,1],"at":[1795225014.212558,1795225014.212558],"retried":[null,1795225014.212558],` +
		`"klass":"HardJob","args":[1,"é<&>"],"late":true,` +
		`"dead":["Net::ReadTimeout","\u0000 \"quoted\" ` + "\u2028" + ` 🎭","1d568ab56a49fd934a79f42b",1795225014,"default"]}`
	if got != want {
		t.Errorf("ruby\n got %s\nwant %s", got, want)
	}
}
