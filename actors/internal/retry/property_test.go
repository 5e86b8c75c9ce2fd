package retry

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/scores"
)

// recorded are the fields that a failure may write.
var recorded = []string{"queue", "error_message", "error_class", "failed_at", "retried_at", "retry_count", "error_backtrace"}

// jsonText draws text of a JSON value, with forms that a decoder would lose.
func jsonText(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := 4
		if depth > 0 {
			kinds = 6
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false", "{}", "[]", " [ ] "}).Draw(t, "word")
		case 1:
			return rapid.SampledFrom([]string{
				"0", "-0", "1e3", "1.10", "5.0", "123456789012345678901234567890", "1e999", "-7E-2", "1795225014.20",
			}).Draw(t, "number")
		case 2:
			text, _ := job.EncodeJSON(strings.ToValidUTF8(rapid.String().Draw(t, "string"), ""))
			return string(text)
		case 3:
			return rapid.SampledFrom([]string{`"\u0041\/"`, `"\ud800"`, "\"\u2028<>&\"", `"\u0000"`}).Draw(t, "escapes")
		case 4:
			return "[" + strings.Join(rapid.SliceOfN(jsonText(depth-1), 0, 3).Draw(t, "items"), ", ") + "]"
		default:
			var b strings.Builder
			for i, v := range rapid.SliceOfN(jsonText(depth-1), 0, 3).Draw(t, "values") {
				b.WriteString([]string{"", ","}[min(i, 1)] + `"k" : ` + v)
			}
			return "{" + b.String() + "}"
		}
	})
}

// payload draws a job with fields of any type, known and unknown, in any order.
func payload() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		known := []string{
			"class", "args", "jid", "retry", "retry_for", "retry_queue", "retry_count", "failed_at", "retried_at",
			"queue", "backtrace", "dead", "error_message", "error_class", "error_backtrace", "created_at", "enqueued_at",
			"cattr", "bid", "locale", "wrapped", "x1", "x2",
		}
		keys := rapid.Permutation(known).Draw(t, "keys")[:rapid.IntRange(0, len(known)).Draw(t, "n")]
		parts := make([]string, 0, len(keys))
		for _, k := range keys {
			parts = append(parts, `"`+k+`" :`+jsonText(2).Draw(t, k))
		}
		return "{" + strings.Join(parts, " ,") + "}"
	})
}

func TestEveryOtherFieldIsByteEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := payload().Draw(t, "job")
		before, err := troupe.ParsePayload([]byte(raw))
		if err != nil {
			t.Skip(err)
		}
		form := rapid.SampledFrom([]troupe.Timestamps{troupe.TimestampsFloat, troupe.TimestampsMillis}).Draw(t, "form")
		text := rapid.String().Draw(t, "error")
		d := Policy{Timestamps: form}.Decide(now, rand.Uint64(), Failure{
			Raw: []byte(raw), FetchedFrom: "default", Payload: before,
			Err: &troupe.PanicError{Value: text, Stack: []byte("goroutine 1\nmain.f()\n\t/a.go:1 +0x1\n")},
		})
		if string(before.Bytes()) != raw {
			t.Fatalf("the fetched job was edited")
		}
		if d.Outcome == Drop {
			if d.Payload != nil || !d.RunDeathHandlers {
				t.Fatalf("dropped: %+v", d)
			}
			return
		}
		if d.RetryCount == notCounted {
			if d.Outcome != Dead || string(d.Payload) != raw || before.Rewritable() == nil {
				t.Fatalf("%+v of %s", d, raw)
			}
			return
		}
		after, err := troupe.ParsePayload(d.Payload)
		if err != nil {
			t.Fatalf("%v: %s", err, d.Payload)
		}
		if err := after.Rewritable(); err != nil {
			t.Fatalf("%v: %s", err, d.Payload)
		}
		if d.Score <= 0 || d.Score > 2.1e11 || math.IsNaN(d.Score) {
			t.Fatalf("score %v", d.Score)
		}
		order := slices.Collect(after.Keys())
		i := 0
		before = before.Clone()
		pushable(before)
		for key := range before.Keys() {
			if order[i] != key {
				t.Fatalf("order of keys %q in %s", order, raw)
			}
			i++
			was, _ := before.Get(key)
			is, _ := after.Get(key)
			if !slices.Contains(recorded, key) && string(was) != string(is) {
				t.Fatalf("%s: %s became %s", key, was, is)
			}
		}
		for _, key := range order[i:] {
			if !slices.Contains(recorded, key) {
				t.Fatalf("a field %s too many: %s", key, d.Payload)
			}
		}
		checkRecord(t, before, after, d)
	})
}

// checkRecord checks what peers rely on in a stored failure.
func checkRecord(t *rapid.T, before, after *troupe.Payload, d Decision) {
	count, ok := after.Int("retry_count")
	if !ok || count != d.RetryCount || count < 0 {
		t.Fatalf("retry_count %d of %d", count, d.RetryCount)
	}
	if _, ok := after.Time("failed_at"); !ok {
		t.Fatalf("failed_at of %s", after.Bytes())
	}
	last, _ := before.Get("retry_count")
	again := len(last) > 0 && string(last) != "null"
	if first, ok := before.Time("failed_at"); again && ok {
		if kept, _ := after.Time("failed_at"); !kept.Equal(first) {
			t.Fatalf("failed_at changed to %v", kept)
		}
	}
	if at, ok := after.Time("retried_at"); again && (!ok || at.Unix() != now.Unix()) {
		t.Fatalf("retried_at %v", at)
	}
	for _, key := range []string{"error_message", "error_class", "queue"} {
		if _, ok := after.String(key); !ok {
			t.Fatalf("%s is no string: %s", key, after.Bytes())
		}
	}
}

func TestTheWaitLiesInSidekiqsRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Int64Range(0, 30).Draw(t, "count")
		random := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, math.MaxUint64})).Draw(t, "random")
		raw := `{"retry":99}`
		if count > 0 {
			raw = `{"retry":99,"failed_at":1.5,"retry_count":` + string(scores.Format(float64(count-1))) + `}`
		}
		d := Policy{}.Decide(now, random, Failure{Raw: []byte(raw), FetchedFrom: "q", Err: boom})
		least := float64(count*count*count*count + 15)
		if wait := d.Score - scores.Of(now); wait < least-1e-6 || wait >= least+float64(10*(count+1))-1+1e-3+1e-6 {
			t.Fatalf("count %d waits %v", count, wait)
		}
	})
}

func TestTheJitterTakesEveryWholeSecond(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for count := range int64(3) {
		seen := make(map[float64]bool)
		for range 5000 {
			seen[jitter(r.Uint64(), count)] = true
		}
		for s := range 10 * (count + 1) {
			if !seen[float64(s)] {
				t.Errorf("count %d: never %d s", count, s)
			}
		}
		if len(seen) != int(10*(count+1)) {
			t.Errorf("count %d: %d values", count, len(seen))
		}
	}
}

func TestHugeCountsDoNotOverflow(t *testing.T) {
	for _, count := range []string{"668", "669", "1e6", "4294967296", "9223372036854775807", "123456789012345678901234567890", "1e999"} {
		d := Policy{}.Decide(now, rand.Uint64(), Failure{
			Raw:         []byte(`{"retry":123456789012345678901234567890,"failed_at":1.5,"retry_count":` + count + `}`),
			FetchedFrom: "q", Err: boom,
		})
		if d.Outcome != Retry || d.Score < scores.Of(now) || d.Score > 2.1e11 || strings.ContainsAny(scores.Format(d.Score), "eE-") {
			t.Errorf("count %s: %v, score %s", count, d.Outcome, scores.Format(d.Score))
		}
		if d.RetryCount <= 0 {
			t.Errorf("count %s became %d", count, d.RetryCount)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	raw := []byte(`{"retry":true,"queue":"default","class":"RecordJob","args":[1,"two",{"three":3.5},null],` +
		`"jid":"2d03c174ea55420c48831de1","created_at":1795224882207,"enqueued_at":1795224882207}`)
	p, err := troupe.ParsePayload(raw)
	if err != nil {
		b.Fatal(err)
	}
	trace := &troupe.PanicError{Value: "x", Stack: []byte(strings.Repeat("main.f(0x1)\n\t/app/file.go:12 +0x1d\n", 30))}
	for name, in := range map[string]Failure{
		"retry":     {Raw: raw, FetchedFrom: "default", Payload: p, Err: boom},
		"parse":     {Raw: raw, FetchedFrom: "default", Err: boom},
		"callback":  {Raw: raw, FetchedFrom: "default", Payload: p, Err: boom, Options: troupe.Options{RetryIn: answer(troupe.Delay(time.Minute))}},
		"backtrace": {Raw: raw, FetchedFrom: "default", Payload: p, Err: trace, Options: troupe.Options{Backtrace: -1}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Policy{}.Decide(now, 1<<63, in)
			}
		})
	}
}
