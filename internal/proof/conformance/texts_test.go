package conformance

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"context"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
)

// drawDouble draws a number that Ruby reads as a float: short and long texts,
// with and without an exponent, of any size that a double has.
func drawDouble(t *rapid.T) string {
	if rapid.Bool().Draw(t, "of bits") {
		f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			return strconv.FormatFloat(f, rapid.SampledFrom([]byte("eE")).Draw(t, "format"), -1, 64)
		}
	}
	text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
	if !strings.ContainsAny(text, ".eE") {
		text += ".0"
	}
	return text
}

// drawText draws the text of any value, keys that come twice included.
func drawText(t *rapid.T, depth int) string {
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0:
		return drawDouble(t)
	case kind == 1 && depth > 0:
		var members []string
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			key := rapid.OneOf(rapid.SampledFrom([]string{`"a"`, `"\u0061"`, `"b"`, `"é"`, `"\u00e9"`, `""`}), rapid.Custom(drawString)).Draw(t, "key")
			members = append(members, key+drawSpace(t, ":")+drawText(t, depth-1))
		}
		return "{" + strings.Join(members, drawSpace(t, ",")) + "}"
	case kind == 2 && depth > 0:
		var items []string
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			items = append(items, drawText(t, depth-1))
		}
		return "[ " + strings.Join(items, drawSpace(t, ",")) + "]"
	}
	return drawValue(t, min(depth, 1))
}

// Whatever text is pushed, Go writes what Ruby writes for the value that it reads
// there, and Ruby writes what Go has written once more as it is.
func TestCheck35AnyTextBecomesTheOneThatRubyWrites(t *testing.T) {
	s := newSite(t)
	compare := func(fail func(string, ...any), texts []string) {
		var ours []string
		for _, text := range texts {
			raw, err := job.EncodeJSON(json.RawMessage(text))
			if err != nil {
				fail("%s: %v", text, err)
				return
			}
			ours = append(ours, string(raw))
		}
		var theirs, again []string
		s.ruby(`args.map { |list| list.map { |text| JSON.generate(JSON.parse(text)) } }`, &[]any{&theirs, &again}, texts, ours)
		for i, text := range texts {
			if ours[i] != theirs[i] || ours[i] != again[i] {
				fail("text %s\nGo    %s\nRuby  %s\nagain %s", text, ours[i], theirs[i], again[i])
			}
		}
	}
	compare(t.Errorf, []string{
		"-0", "-0.0", "0e5", "-0e-5", "1e3", "1E+3", "1.10", "1e-400", "-1e-400", "5e-324", "2e-324", "1.7976931348623157e308",
		"1.7976931348623158e308", "1e14", "1e15", "1e16", "123456789012345680.0", "999999999999999.9", "4200441064345871.5",
		"9007199254740993.0", "0.0001", "0.00012", "0.00009999", "1e-4", "1e-5", "1e22", "1e23", "123456789012345678901234567890",
		"0.1000000000000000055511151231257827", `{"a":1,"b":2,"a":3}`, `{"\u0061":{"x":1,"x":2},"b":[],"a":{"y":1,"y":null,"z":0,"y":[{"a":1,"a":2}]}}`,
		`"\u2028\u2029\/\u003c\u007f\u00e9\ud83d\ude00\u0000\u001f\b\f\n\r\t\"\\"`, "\"\u2028\u2029/<\x7fé😀\"", " [ 1 , { \"a\" : [ ] } ] ",
	})
	rapid.Check(t, func(t *rapid.T) {
		compare(t.Fatalf, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return drawText(t, 4) }), 1, 60).Draw(t, "texts"))
	})
	for _, text := range []string{"1e999", `[0,{"a":-1e400}]`, "1.7976931348623159e308", "1" + strings.Repeat("0", 309) + ".0"} {
		if raw, err := job.EncodeJSON(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), "at byte") {
			t.Errorf("%.40s becomes %s, %v", text, raw, err)
		}
	}
}

// crooked is what Ruby would write otherwise, in each kind of Go value that can
// hold such a text.
const crooked = ` [1e3, 1.10 ,-0, -0.0, 1E-7, 1e15, {"a":1, "b":2, "\u0061":3}, "\u003c\/\u2028é", 123456789012345678901234567890]`

type crookedArgs struct {
	Raw    json.RawMessage `arg:"0"`
	Own    crookedValue    `arg:"1"`
	Number json.Number     `arg:"2"`
	Small  float32         `arg:"3"`
	Large  float32         `arg:"4"`
}

func (crookedArgs) Class() string { return "Fail" }

type crookedValue struct{}

func (crookedValue) MarshalJSON() ([]byte, error) { return []byte(crooked), nil }

// pushCrooked pushes jobs of class Fail in every way there is, for the time given
// unless it is zero.
func (s *site) pushCrooked(at time.Time) (pushed int) {
	s.t.Helper()
	raw, ctx := json.RawMessage(crooked), s.t.Context()
	when := []client.Option{client.At(at), with("custom", raw)}
	typed := crookedArgs{Raw: raw, Number: "1.50", Small: 0.0001, Large: 1e15}
	_, err := s.client.PushJSON(ctx, "Fail", raw, when...)
	s.must(err)
	_, err = s.client.PushClass(ctx, "Fail", []any{raw, crookedValue{}, json.Number("-0"), float32(1e15), map[string]any{"k": raw}}, when...)
	s.must(err)
	_, err = s.client.Push(ctx, typed, when...)
	s.must(err)
	_, err = client.PushBulk(ctx, s.client, slices.Values([]crookedArgs{typed, typed}), when...)
	s.must(err)
	_, err = s.client.PushBulkClass(ctx, "Fail", slices.Values([][]any{{raw}}), when...)
	s.must(err)
	field := ""
	if !at.IsZero() {
		field = `, "at" : ` + scores.Format(scores.Of(at))
	}
	_, err = s.client.PushPayload(ctx, payload(s.t, fmt.Sprintf(`{ "class":"Fail", "args":%s%s, "x" : 1.50, "\u0079":%s}`, crooked, field, crooked)))
	s.must(err)
	edits := client.New(s.rdb, client.WithMiddleware(func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			p.Set("edited", raw)
			return next(ctx, p)
		}
	}))
	_, err = edits.PushClass(ctx, "Fail", nil, client.At(at))
	s.must(err)
	return 8
}

func TestCheck28RubysRescheduleOfAnyNumberLeavesOneMember(t *testing.T) {
	s := newSite(t)
	n := s.pushCrooked(time.Now().Add(10 * time.Minute))
	s.rescheduled("schedule", "ScheduledSet", n)

	n = s.pushCrooked(time.Time{})
	kit := s.work(on(2, "default"))
	s.awaitSize("retry", n)
	s.putOff("retry")
	kit.Stop()
	s.rescheduled("retry", "RetrySet", n)

	members := s.members("retry")
	for i, action := range []string{"retry", "kill", "delete"} {
		s.ruby(`Sidekiq::RetrySet.new.find { |e| e.value == args[0] }.send(args[1])`, nil, members[i], action)
		harness.EqualList(t, action+": retry has", s.members("retry"), members[i+1:])
	}
	if dead := s.members("dead"); len(dead) != 1 || dead[0] != members[1] {
		t.Errorf("dead has %q, want %s", dead, members[1])
	}
	if queued := s.queue("default"); len(queued) != 1 {
		t.Errorf("the queue has %q, want the one that was retried", queued)
	} else {
		sameFields(t, members[0], queued[0], "enqueued_at", "retry_count")
	}
}

// rescheduled has Ruby put off each entry of a set by 100 s.
func (s *site) rescheduled(set, class string, n int) {
	s.t.Helper()
	before := s.rdb.ZRangeWithScores(s.t.Context(), set, 0, -1).Val()
	if len(before) != n {
		s.t.Fatalf("%d in %s, want %d", len(before), set, n)
	}
	s.ruby(`Sidekiq.const_get(args[0]).new.to_a.each { |e| e.reschedule(e.score + 100) }`, nil, class)
	after := s.rdb.ZRangeWithScores(s.t.Context(), set, 0, -1).Val()
	for i, z := range after {
		if i >= n || z.Member != before[i].Member || math.Abs(z.Score-before[i].Score-100) > 0.001 {
			s.t.Fatalf("%s: member %d of %d is %s at %f", set, i+1, len(after), z.Member, z.Score)
		}
	}
	if len(after) != n {
		s.t.Fatalf("%d in %s after Ruby's reschedule, want %d", len(after), set, n)
	}
}
