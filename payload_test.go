package troupe

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe/internal/test/harness"
)

func mustParse(t testing.TB, raw string) *Payload {
	t.Helper()
	p, err := ParsePayload([]byte(raw))
	if err != nil {
		t.Fatalf("ParsePayload(%q): %v", raw, err)
	}
	return p
}

func TestParseRefusesWhatRubyRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, raw, reason string
		offset            int
	}{
		{"nothing", "", "empty", 0},
		{"only space", " \n", "empty", 0},
		{"byte order mark", "\xef\xbb\xbf{}", "byte order mark", 0},
		{"NaN", `{"a":NaN}`, "invalid value", 5},
		{"Infinity", `{"a":-Infinity}`, "invalid number", 6},
		{"text after", `{"a":1} x`, "text after the object", 8},
		{"second object", `{}{}`, "text after the object", 2},
		{"cut short", `{"a":1`, "unexpected end", 6},
		{"cut in a key", `{"a`, "unfinished string", 3},
		{"cut after a key", `{"a"`, "unexpected end", 4},
		{"no colon", `{"a" 1}`, "expected : after a key", 5},
		{"no comma", `{"a":1 "b":2}`, "expected , or } after a value", 7},
		{"comma at the end", `{"a":1,}`, "expected a key in quotes", 7},
		{"key without quotes", `{a:1}`, "expected a key in quotes", 1},
		{"comment", `{"a":/* x */1}`, "invalid value", 5},
		{"single quotes", `{'a':1}`, "expected a key in quotes", 1},
		{"control character", "{\"a\":\"x\ny\"}", "control character in a string", 7},
		{"bad escape", `{"a":"\x41"}`, "invalid escape in a string", 6},
		{"bad \\u", `{"a":"\u12g4"}`, `invalid \u escape in a string`, 6},
		{"leading zero", `{"a":01}`, "expected , or } after a value", 6},
		{"plus", `{"a":+1}`, "invalid value", 5},
		{"naked fraction", `{"a":1.}`, "invalid number", 7},
		{"naked exponent", `{"a":1e}`, "invalid number", 7},
		{"misspelt word", `{"a":nul}`, "invalid value", 5},
		{"array", `[1]`, "not an object but an array", 0},
		{"string", ` "x"`, "not an object but a string", 1},
		{"number", `5`, "not an object but a number", 0},
		{"boolean", `true`, "not an object but a boolean", 0},
		{"null", `null`, "not an object but null", 0},
		{"broken array", `[1`, "unexpected end", 2},
		{"too deep", strings.Repeat(`{"a":`, 101), "nested deeper than 100 levels", 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParsePayload([]byte(tt.raw))
			got, ok := errors.AsType[*PayloadError](err)
			if !ok {
				t.Fatalf("got %v, want a PayloadError", err)
			}
			if want := (PayloadError{Reason: tt.reason, Offset: tt.offset}); *got != want {
				t.Errorf("got %+v, want %+v", *got, want)
			}
		})
	}
}

func TestTagsAreTheStringsOfTheirArray(t *testing.T) {
	for raw, want := range map[string][]string{
		`{"tags":["x","\u00e9<\"&>","",1,null,["y"],1e999,"\u2028é"]}`: {"x", "é<\"&>", "", "\u2028é"},
		`{"tags":[]}`: nil, `{"tags":"x"}`: {"x"}, `{"tags":5}`: nil, `{"tags":{"x":1}}`: nil, `{"tags":null}`: nil, `{}`: nil,
	} {
		if got := mustParse(t, raw).Tags(); !slices.Equal(got, want) {
			t.Errorf("%s has the tags %q, want %q", raw, got, want)
		}
	}
}

func TestParseDepth(t *testing.T) {
	nested := func(levels int) string { // in all, the job itself being the first
		return `{"class":"X","args":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
	}
	mustParse(t, nested(100))
	if _, err := ParsePayload([]byte(nested(101))); err == nil {
		t.Error("101 levels parsed")
	}
}

// Samples that Ruby's Sidekiq 6, 7 and 8 wrote.
var rubyPayloads = []string{
	`{"retry":true,"queue":"default","class":"RecordJob","args":[1],"jid":"0d6ec0d6a7e2450f8a158dc8","created_at":1795224881.1534805,"enqueued_at":1795224881.153557}`,
	`{"retry":true,"queue":"crit","class":"RecordJob","args":[1,"two",{"three":3.5},null],"jid":"2d03c174ea55420c48831de1","created_at":1795224882207,"enqueued_at":1795224882207}`,
	`{"retry":true,"queue":"default","class":"RecordJob","args":["later"],"jid":"cb729fe70add405b29ee9a42","created_at":1795224882764}`,
	`{"retry":3,"queue":"low","retry_queue":"low","class":"RetryQueueJob","args":[],"jid":"1d568ab56a49fd934a79f42b","created_at":1795225014.209691,"enqueued_at":1795225014.2097554,"error_message":"go low","error_class":"RuntimeError","failed_at":1795225014.2125583,"retry_count":0}`,
	`{"retry":0,"queue":"default","class":"DieJob","args":[],"jid":"70a956e770b59efceda96ded","created_at":1795225098321,"enqueued_at":1795225098322,"error_message":"die","error_class":"RuntimeError","failed_at":1795225098323,"retry_count":0}`,
}

func TestRubyPayloads(t *testing.T) {
	type reading struct {
		Class, JID, Queue, Args, Created string
		Failures                         int
	}
	want := []reading{
		{"RecordJob", "0d6ec0d6a7e2450f8a158dc8", "default", "[1]", "2026-11-21T01:34:41.1534805Z", 0},
		{"RecordJob", "2d03c174ea55420c48831de1", "crit", `[1,"two",{"three":3.5},null]`, "2026-11-21T01:34:42.207Z", 0},
		{"RecordJob", "cb729fe70add405b29ee9a42", "default", `["later"]`, "2026-11-21T01:34:42.764Z", 0},
		{"RetryQueueJob", "1d568ab56a49fd934a79f42b", "low", "[]", "2026-11-21T01:36:54.209691Z", 1},
		{"DieJob", "70a956e770b59efceda96ded", "default", "[]", "2026-11-21T01:38:18.321Z", 1},
	}
	for i, raw := range rubyPayloads {
		p := mustParse(t, raw)
		created, _ := p.Time("created_at")
		got := reading{p.Class(), p.JID(), p.Queue(), string(p.Args()), created.Format(time.RFC3339Nano), p.Failures()}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("sample %d (-want +got):\n%s", i, diff)
		}
		if string(p.Bytes()) != raw {
			t.Errorf("sample %d: Bytes() = %s", i, p.Bytes())
		}
	}
}

// A failure written field by field must give the bytes that Ruby 7 wrote.
func TestRetryEditsGiveRubysBytes(t *testing.T) {
	p := mustParse(t, `{"retry":3,"queue":"low","retry_queue":"low","class":"RetryQueueJob","args":[],"jid":"1d568ab56a49fd934a79f42b","created_at":1795225014.209691,"enqueued_at":1795225014.2097554}`)
	p.SetString("queue", "low")
	p.SetString("error_message", "go low")
	p.SetString("error_class", "RuntimeError")
	p.SetTime("failed_at", time.Unix(1795225014, 212558300), TimestampsFloat)
	p.SetInt("retry_count", 0)
	if got := string(p.Bytes()); got != rubyPayloads[3] {
		t.Errorf("got  %s\nwant %s", got, rubyPayloads[3])
	}
}

func TestEditKeepsEverythingElse(t *testing.T) {
	const raw = ` { "n" : 1e3 , "big":123456789012345678901234567890,"esc\u0061ped":"\u003c\/", ` +
		`"obj": {"b" : 1.10, "a":[ ]} , "retry_count":0, "bad":"` + "\xff" + `" } `
	p := mustParse(t, raw)
	harness.Equal(t, "unchanged: got", string(p.Bytes()), raw)
	p.SetInt("retry_count", 0) // as it is: no edit
	harness.Equal(t, "after setting what is there: got", string(p.Bytes()), raw)
	p.SetInt("retry_count", 1)
	p.Set("dead", json.RawMessage("false"))
	p.Delete("n")
	p.Delete("absent")
	want := `{"big":123456789012345678901234567890,"esc\u0061ped":"\u003c\/",` +
		`"obj":{"b" : 1.10, "a":[ ]},"retry_count":1,"bad":"` + "\xff" + `","dead":false}`
	if got := string(p.Bytes()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, _ := p.String("escaped"); got != "</" {
		t.Errorf(`String("escaped") = %q`, got)
	}
	harness.EqualList(t, "Keys()", slices.Collect(p.Keys()), []string{"big", "escaped", "obj", "retry_count", "bad", "dead"})
	for range p.Keys() {
		break // an early end must not panic
	}
}

func TestDuplicateKeys(t *testing.T) {
	p := mustParse(t, `{"a":1,"b":2,"\u0061":3}`)
	if got, _ := p.Int("a"); got != 3 {
		t.Errorf("a = %d, want the last value 3", got)
	}
	if got := string(p.Bytes()); got != `{"a":1,"b":2,"\u0061":3}` {
		t.Errorf("unchanged: got %s", got)
	}
	p.SetInt("b", 5)
	if got := string(p.Bytes()); got != `{"a":3,"b":5}` {
		t.Errorf("edited: got %s, want the place of the first and the value of the last", got)
	}
}

func TestManyKeys(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{`)
	for i := range 5000 {
		fmt.Fprintf(&text, `"k%d":%d,`, i, i)
	}
	text.WriteString(`"k7":"again","":0}`)
	p := mustParse(t, text.String())
	if got, _ := p.String("k7"); got != "again" {
		t.Errorf("k7 = %q, want the last value", got)
	}
	if got, ok := p.Int("k4999"); !ok || got != 4999 {
		t.Errorf("k4999 = %d, %v", got, ok)
	}
	harness.Equal(t, "keys", len(slices.Collect(p.Keys())), 5001)
}

func TestZeroPayload(t *testing.T) {
	var p Payload
	if string(p.Bytes()) != "{}" || p.Class() != "" || p.Args() != nil || !p.ValidUTF8() {
		t.Errorf("zero payload: %s", p.Bytes())
	}
	p.Set("a", nil)
	p.SetString("b", "\xff\xffx<\u2028\x01")
	p.SetString("a", "1")
	if got, want := string(p.Bytes()), `{"a":"1","b":"`+"\ufffdx<\u2028"+`\u0001"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	harness.OK(t, p.SetJSON("c", map[string]any{"x": 100.0}))
	err := p.SetJSON("d", func() {})
	if want := `set "d": encode JSON: no JSON for a Go func()`; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	if got, _ := p.Get("c"); string(got) != `{"x":100.0}` {
		t.Errorf("c = %s", got)
	}
	if _, ok := p.Get("d"); ok {
		t.Error("a failed SetJSON left a field")
	}
}

func TestCloneIsIndependent(t *testing.T) {
	p := mustParse(t, `{"a":1,"b":2}`)
	p.SetInt("b", 3)
	c := p.Clone()
	c.SetInt("a", 9)
	c.SetInt("b", 9)
	p.SetInt("c", 4)
	if got := string(p.Bytes()); got != `{"a":1,"b":3,"c":4}` {
		t.Errorf("original: %s", got)
	}
	if got := string(c.Bytes()); got != `{"a":9,"b":9}` {
		t.Errorf("clone: %s", got)
	}
	untouched := mustParse(t, `{ "a": 1}`).Clone()
	if got := string(untouched.Bytes()); got != `{ "a": 1}` {
		t.Errorf("untouched clone: %s", got)
	}
}

func TestHandlerAndDisplayClass(t *testing.T) {
	for _, tt := range []struct{ raw, handler, display string }{
		{`{"class":"A"}`, "A", "A"},
		{`{"class":"A","wrapped":"B"}`, "A", "B"},
		{`{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":"B"}`, "B", "B"},
		{`{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"B","display_class":"C"}`, "B", "C"},
		{`{"class":"Sidekiq::ActiveJob::Wrapper"}`, "Sidekiq::ActiveJob::Wrapper", "Sidekiq::ActiveJob::Wrapper"},
		{`{"class":5}`, "5", "5"},
		{`{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":7}`, "7", "7"},
		{`{"class":{}}`, "", ""},
		{`{"cl\u0061ss":"\ud83d\ude00"}`, "😀", "😀"},
	} {
		p := mustParse(t, tt.raw)
		if p.HandlerClass() != tt.handler || p.DisplayClass() != tt.display {
			t.Errorf("%s: got %q, %q", tt.raw, p.HandlerClass(), p.DisplayClass())
		}
	}
}

func TestIntIsAJSONInteger(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-1": -1, "-0": 0, "25": 25,
		"9223372036854775807": 9223372036854775807, "-9223372036854775808": -9223372036854775808,
	} {
		if got, ok := mustParse(t, `{"n":`+text+`}`).Int("n"); !ok || got != want {
			t.Errorf("%s: got %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{`"3"`, "5.0", "1e2", "true", "null", "9223372036854775808", "[1]"} {
		if got, ok := mustParse(t, `{"n":`+text+`}`).Int("n"); ok {
			t.Errorf("%s: got %d", text, got)
		}
	}
}

func TestNamesAndArgsOfOtherClients(t *testing.T) {
	for raw, want := range map[string]string{
		`{"class":"A","jid":12345,"queue":7,"args":{"0":1}}`: `A 12345 7 [{"0":1}]`,
		`{"class":5,"jid":"j","queue":"q","args":"x"}`:       `5 j q ["x"]`,
		`{"class":null,"jid":[1],"queue":{},"args":null}`:    `    `[:3],
		`{"class":"A","jid":true,"queue":"q","args":[ 1 ]}`:  `A  q [ 1 ]`,
	} {
		p := mustParse(t, raw)
		if got := fmt.Sprintf("%s %s %s %s", p.Class(), p.JID(), p.Queue(), p.Args()); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestFailures(t *testing.T) {
	for text, want := range map[string]int{
		`{}`: 0, `{"retry_count":-1}`: 0, `{"retry_count":0}`: 1, `{"retry_count":24}`: 25,
		`{"retry_count":"3"}`: 4, `{"retry_count":"?"}`: 0, `{"retry_count":2.9}`: 3, `{"retry_count":null}`: 0, `{"retry_count":9223372036854775807}`: 1 << 31,
	} {
		if got := mustParse(t, text).Failures(); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

func TestLargePayload(t *testing.T) {
	args := `["` + strings.Repeat("x", 8<<10) + `"]`
	p := mustParse(t, `{"class":"Big","args":`+args+`}`)
	if p.Class() != "Big" || string(p.Args()) != args {
		t.Error("large payload read wrongly")
	}
}

func TestValidUTF8(t *testing.T) {
	p := mustParse(t, "{\"a\":\"\xff\",\"b\":1}")
	if p.ValidUTF8() {
		t.Error("invalid bytes called valid")
	}
	p.SetInt("b", 2)
	if p.ValidUTF8() {
		t.Error("invalid bytes called valid after an edit")
	}
	p.SetString("a", "é")
	if !p.ValidUTF8() {
		t.Error("valid bytes called invalid")
	}
}

func TestRewritable(t *testing.T) {
	p := mustParse(t, `{"a":"\ud83d","b":1}`)
	for _, edit := range []func(){func() {}, func() { p.SetInt("b", 2) }} {
		edit()
		e, ok := errors.AsType[*PayloadError](p.Rewritable())
		if !ok || *e != (PayloadError{Reason: "half of a surrogate pair", Offset: 6}) {
			t.Errorf("%s: %v", p.Bytes(), e)
		}
	}
	p.SetString("a", "é")
	harness.Check(t, p.Rewritable())
}

func TestPayloadInsideJSON(t *testing.T) {
	inner := mustParse(t, rubyPayloads[0])
	var outer Payload
	harness.OK(t, outer.SetJSON("job", inner))
	var back struct{ Job Payload }
	harness.OK(t, json.Unmarshal(outer.Bytes(), &back))
	if got := string(back.Job.Bytes()); got != rubyPayloads[0] {
		t.Errorf("got %s", got)
	}
	if err := json.Unmarshal([]byte(`{"job":[1]}`), &back); err == nil {
		t.Error("an array became a payload")
	}
}

// What is handed out must not reach into its neighbours when appended to.
func TestSlicesAreCapped(t *testing.T) {
	p := mustParse(t, `{"args":[1],"jid":"x"}`)
	_ = append(p.Args(), "!!!"...)
	if got := string(p.Bytes()); got != `{"args":[1],"jid":"x"}` {
		t.Errorf("append to Args changed the payload: %s", got)
	}
}
