package retry

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
)

func TestDeadFalseDropsTheExhausted(t *testing.T) {
	for payload, want := range map[string]job.Outcome{
		`{"retry":0,"dead":false}`:                    Drop,
		`{"retry":3,"dead":false}`:                    Retry,
		`{"retry":0,"dead":true}`:                     Dead,
		`{"retry":0,"dead":null}`:                     Dead,
		`{"retry":0,"dead":"false"}`:                  Dead,
		`{"retry":0,"dead":0}`:                        Dead,
		"{\"retry\":9,\"dead\":false,\"a\":\"\xff\"}": Drop,
	} {
		d := decide(t, payload, nil)
		if d.Outcome != want || d.RunDeathHandlers != (want != Retry) {
			t.Errorf("%q: %v, handlers %v", payload, d.Outcome, d.RunDeathHandlers)
		}
		if d.Outcome == Drop && get(d.DeathPayload, "error_class") != `"RuntimeError"` {
			t.Errorf("%q: handlers get %s", payload, d.DeathPayload.Bytes())
		}
	}
}

func TestWhatTheHandlerAsksFor(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		count  int
		action job.Outcome
		reason string
		wait   float64
	}{
		"discard":                    {troupe.Discard(boom), 0, Drop, becauseDiscarded, 0},
		"discard of the last":        {troupe.Discard(boom), 24, Drop, becauseDiscarded, 0},
		"kill":                       {troupe.Kill(boom), 0, Dead, becauseKilled, 0},
		"kill, wrapped":              {fmt.Errorf("charge: %w", troupe.Kill(nil)), 0, Dead, becauseKilled, 0},
		"retry in an hour":           {troupe.RetryIn(time.Hour, boom), 0, Retry, becauseFailed, 3600},
		"retry in half a second":     {troupe.RetryIn(time.Second/2, nil), 0, Retry, becauseFailed, 0.5},
		"retry in 0":                 {troupe.RetryIn(0, boom), 0, Retry, becauseFailed, 16},
		"retry in less than nothing": {troupe.RetryIn(-time.Hour, boom), 0, Retry, becauseFailed, 16},
		"retry in, but exhausted":    {troupe.RetryIn(time.Hour, boom), 24, Dead, becauseExhausted, 0},
		"retry in 292 years":         {troupe.RetryIn(math.MaxInt64, boom), 0, Retry, becauseFailed, 9223372036},
		"plainly":                    {boom, 0, Retry, becauseFailed, 16},
		"a panic with a discard":     {&troupe.PanicError{Value: troupe.Discard(boom)}, 0, Retry, becauseFailed, 16},
		"an error that panics":       {panicky{}, 0, Retry, becauseFailed, 16},
	} {
		d := decide(t, fmt.Sprintf(`{"retry":true,"retry_count":%d,"failed_at":1.5}`, tt.count), func(f *Failure) { f.Err = tt.err })
		if d.Outcome != tt.action || d.Reason != tt.reason {
			t.Errorf("%s: %v (%s)", name, d.Outcome, d.Reason)
		}
		if d.Outcome != Retry {
			continue
		}
		wait := d.Score - scores.Of(now)
		if wait < tt.wait-1e-6 || wait >= tt.wait+20 {
			t.Errorf("%s: waits %v s, want %v and less than 20 more", name, wait, tt.wait)
		}
	}
}

// panicky is an error all of whose methods panic.
type panicky struct{}

func (panicky) Error() string        { panic("no text") }
func (panicky) ErrorClass() string   { panic("no class") }
func (panicky) Backtrace() []string  { panic("no stack") }
func (panicky) Unwrap() error        { panic("no cause") }
func (panicky) As(any) bool          { panic("no type") }
func (panicky) Is(target error) bool { panic("not that") }

func TestDiscardedAtIsForTheHandlersOnly(t *testing.T) {
	for name, edit := range map[string]func(*Failure){
		"by the handler":   func(f *Failure) { f.Err = troupe.Discard(boom) },
		"by RetryIn":       func(f *Failure) { f.Options.RetryIn = answer(troupe.DiscardDelay) },
		"of retry:false":   func(f *Failure) { f.Err, f.Raw = troupe.Discard(boom), []byte(`{"retry":false,"class":"A"}`) },
		"of a dead:false":  func(f *Failure) { f.Err, f.Raw = troupe.Discard(boom), []byte(`{"dead":false,"class":"A"}`) },
		"of a job not UTF": func(f *Failure) { f.Err, f.Raw = troupe.Discard(boom), []byte("{\"class\":\"A\",\"a\":\"\xff\"}") },
	} {
		in := Failure{Raw: []byte(`{"class":"A"}`), FetchedFrom: "default", Err: boom}
		edit(&in)
		d := Policy{}.Decide(now, 0, in)
		if d.Outcome != Drop || d.Payload != nil || !d.RunDeathHandlers || get(d.DeathPayload, "discarded_at") != "1795225014212" {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func answer(d troupe.Delay) func(int, error, *troupe.Payload) troupe.Delay {
	return func(int, error, *troupe.Payload) troupe.Delay { return d }
}

func TestRetryInOfTheClass(t *testing.T) {
	for name, tt := range map[string]struct {
		ask      func(int, error, *troupe.Payload) troupe.Delay
		action   job.Outcome
		wait     float64
		reported string
	}{
		"a wait":          {answer(troupe.Delay(time.Minute)), Retry, 60, ""},
		"zero":            {answer(0), Retry, 31, ""},
		"negative":        {answer(troupe.Delay(-time.Second)), Retry, 31, "returned -1s"},
		"kill":            {answer(troupe.KillDelay), Dead, 0, ""},
		"discard":         {answer(troupe.DiscardDelay), Drop, 0, ""},
		"panic":           {func(int, error, *troupe.Payload) troupe.Delay { panic("oops") }, Retry, 31, "panic: oops"},
		"panic with nil":  {func(int, error, *troupe.Payload) troupe.Delay { panic(nil) }, Retry, 31, "panic"},
		"edits its copy":  {func(_ int, _ error, p *troupe.Payload) troupe.Delay { p.Set("args", nil); return 0 }, Retry, 31, ""},
		"checks its data": {checkedRetryIn, Retry, 5, ""},
	} {
		d := decide(t, `{"class":"A::B","retry":5,"retry_count":1,"failed_at":1.5,"args":[1]}`, func(f *Failure) { f.Options.RetryIn = tt.ask })
		if d.Outcome != tt.action {
			t.Errorf("%s: %v", name, d.Outcome)
		}
		if wait := d.Score - scores.Of(now); d.Outcome == Retry && (wait < tt.wait-1e-6 || wait >= tt.wait+30) {
			t.Errorf("%s: waits %v, want %v and less than 30 more", name, wait, tt.wait)
		}
		if d.Outcome == Retry && get(fields(t, d.Payload), "args") != "[1]" {
			t.Errorf("%s: the callback changed the job: %s", name, d.Payload)
		}
		text := errors.Join(d.CallbackErrs...)
		if tt.reported == "" && text != nil {
			t.Errorf("%s: reported %v", name, text)
		}
		if tt.reported != "" && (len(d.CallbackErrs) != 1 || !strings.Contains(text.Error(), tt.reported) ||
			!strings.Contains(text.Error(), `callback RetryIn of class "A::B"`)) {
			t.Errorf("%s: reported %v, want %q", name, text, tt.reported)
		}
	}
}

// A wait that is exact has no jitter, whatever the number is that jitter is made of.
func TestExactWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*Failure)
		wait float64
	}{
		"of the handler":  {func(f *Failure) { f.Err = troupe.RetryExactly(10*time.Second, boom) }, 10},
		"of the class":    {func(f *Failure) { f.Options.RetryIn = answer(troupe.Exactly(90 * time.Minute)) }, 5400},
		"of milliseconds": {func(f *Failure) { f.Options.RetryIn = answer(troupe.Exactly(time.Millisecond)) }, 0.001},
		"of a century":    {func(f *Failure) { f.Options.RetryIn = answer(troupe.Exactly(876_000 * time.Hour)) }, 3_153_600_000},
	} {
		in := Failure{Raw: []byte(`{"class":"A","retry":5,"retry_count":1,"failed_at":1.5}`), FetchedFrom: "default", Err: boom}
		tt.edit(&in)
		for _, random := range []uint64{0, 1 << 63, math.MaxUint64} {
			if d := (Policy{}).Decide(now, random, in); d.Outcome != Retry || d.Wait != tt.wait || len(d.CallbackErrs) > 0 {
				t.Errorf("%s: %v after %v s, want %v: %v", name, d.Outcome, d.Wait, tt.wait, d.CallbackErrs)
			}
		}
	}
	for _, none := range []troupe.Delay{troupe.Exactly(0), troupe.Exactly(-time.Hour)} {
		if d := decide(t, `{"retry":5}`, func(f *Failure) { f.Options.RetryIn = answer(none) }); d.Wait < 15 || len(d.CallbackErrs) > 0 {
			t.Errorf("no wait is %v s: %v", d.Wait, d.CallbackErrs)
		}
	}
}

// checkedRetryIn answers 5 s if it is called as it should be.
func checkedRetryIn(attempt int, err error, p *troupe.Payload) troupe.Delay {
	if attempt != 3 || !errors.Is(err, boom) || get(p, "retry_count") != "2" || get(p, "error_message") != `"boom"` {
		return troupe.KillDelay
	}
	return troupe.Delay(5 * time.Second)
}

func TestRetryInIsNotAskedForTheExhausted(t *testing.T) {
	d := decide(t, `{"retry":0}`, func(f *Failure) { f.Options.RetryIn = answer(troupe.Delay(time.Hour)) })
	if d.Outcome != Dead {
		t.Errorf("%v", d.Outcome)
	}
	d = decide(t, `{"retry":5}`, func(f *Failure) {
		f.Err, f.Options.RetryIn = troupe.RetryIn(time.Hour, boom), answer(troupe.KillDelay)
	})
	harness.Equal(t, "the handler's own wait", d.Outcome, Retry)
}

func TestExhaustedOfTheClass(t *testing.T) {
	var seen string
	keep := func(p *troupe.Payload, _ error) bool { seen = string(p.Bytes()); p.Set("args", nil); return false }
	for name, tt := range map[string]struct {
		payload  string
		err      error
		ask      func(*troupe.Payload, error) bool
		action   job.Outcome
		called   bool
		reported string
	}{
		"exhausted":      {`{"retry":0,"args":[]}`, boom, keep, Dead, true, ""},
		"killed":         {`{"retry":5,"args":[]}`, troupe.Kill(boom), keep, Dead, true, ""},
		"not UTF-8":      {"{\"retry\":5,\"args\":[\"\xff\"]}", boom, keep, Dead, true, ""},
		"dead:false":     {`{"retry":0,"dead":false}`, boom, keep, Drop, true, ""},
		"retries left":   {`{"retry":5}`, boom, keep, Retry, false, ""},
		"discarded":      {`{"retry":0}`, troupe.Discard(boom), keep, Drop, false, ""},
		"retry:false":    {`{"retry":false}`, boom, keep, Drop, false, ""},
		"says discard":   {`{"retry":0}`, boom, func(*troupe.Payload, error) bool { return true }, Drop, false, ""},
		"panics":         {`{"retry":0}`, boom, func(*troupe.Payload, error) bool { panic("oops") }, Dead, false, "panic: oops"},
		"panics, a kill": {`{"retry":9}`, troupe.Kill(nil), func(*troupe.Payload, error) bool { panic(boom) }, Dead, false, "boom"},
	} {
		seen = ""
		d := decide(t, tt.payload, func(f *Failure) { f.Err, f.Options.Exhausted = tt.err, tt.ask })
		if d.Outcome != tt.action || (seen != "") != tt.called {
			t.Errorf("%s: %v, callback got %q", name, d.Outcome, seen)
		}
		if tt.called && !strings.Contains(seen, `"error_message":"boom"`) {
			t.Errorf("%s: callback got %s", name, seen)
		}
		if d.Outcome == Dead && strings.Contains(string(d.Payload), `"args":null`) {
			t.Errorf("%s: the callback changed the job", name)
		}
		if d.RunDeathHandlers != (d.Outcome != Retry) {
			t.Errorf("%s: death handlers %v", name, d.RunDeathHandlers)
		}
		if got := errors.Join(d.CallbackErrs...); (got != nil) != (tt.reported != "") || got != nil && !strings.Contains(got.Error(), tt.reported) {
			t.Errorf("%s: reported %v", name, got)
		}
	}
}

// A job that Ruby could not write back dies at its first failure, with its bytes, and so does one
// that it could not write back into its set when it was put off or recovered.
func TestWhatRubyCannotWriteDiesWithItsBytes(t *testing.T) {
	for _, arg := range []string{`"a\ud83d"`, `"\udc00"`, `{"\ud83d":1}`, `1e999`, `[-1.5e400]`, "\"\xff\""} {
		raw := `{"retry":5,"class":"A","args":[` + arg + `],"jid":"j","queue":"q"}`
		if d := decide(t, raw, func(*Failure) {}); d.Outcome != Dead || string(d.Payload) != raw || d.Reason != "not writable" {
			t.Errorf("%s: %s because of %s with %s", raw, d.Outcome, d.Reason, d.Payload)
		}
		if d := decide(t, raw, func(f *Failure) { f.Err, f.FetchedFrom = troupe.Park(time.Minute, nil), "other" }); d.Outcome != Park || d.Payload != nil {
			t.Errorf("%s parked with %s", raw, d.Payload)
		}
		p, err := troupe.ParsePayload([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := (Policy{}).Stamp(time.Now(), Recovered{Raw: []byte(raw), Payload: p, Queue: "q"}, "q"); got != nil {
			t.Errorf("%s recovered as %s", raw, got)
		}
	}
}

// What other clients write is stored as Sidekiq's poller can push it, and reads as before.
func TestOddJobsAreStoredAsSidekiqCanPushThem(t *testing.T) {
	for raw, want := range map[string]string{
		`{"class":"A","args":{"0":1}}`:              `{"class":"A","args":[{"0":1}],`,
		`{"class":"A","args":"[]"}`:                 `{"class":"A","args":["[]"],`,
		`{"class":"A","args":null}`:                 `{"class":"A","args":[],`,
		`{"class":"A"}`:                             `{"class":"A","args":[],`,
		`{"class":7,"args":[]}`:                     `{"class":"7","args":[],`,
		`{"args":[],"tags":"x"}`:                    `{"args":[],"tags":["x"],`,
		`{"args":[],"tags":{"x":1}}`:                `{"args":[],`,
		`{"args":[],"tags":null}`:                   `{"args":[],"tags":null,`,
		`{"args":[],"retry_for":2000000000}`:        `{"args":[],"retry_for":1000000000,`,
		`{"args":[],"retry_for":1e999}`:             `{"args":[],"retry_for":1000000000,`,
		`{"args":[],"retry_for":"3600"}`:            `{"args":[],"retry_for":3600,`,
		`{"args":[],"retry_for":"soon"}`:            `{"args":[],"retry_for":null,`,
		`{"args":[],"retry_for":60}`:                `{"args":[],"retry_for":60,`,
		`{"args":[ 1 ],"retry_for":false,"at":1.5}`: `{"args":[ 1 ],"retry_for":false,"at":1.5,`,
	} {
		d := decide(t, raw, nil)
		if d.Outcome != Retry || !strings.HasPrefix(string(d.Payload), want) {
			t.Errorf("%s is stored as %s, want %s", raw, d.Payload, want)
		}
	}
}
