package retry

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/scores"
)

// rubyError is an error with a class of Ruby's.
type rubyError struct{ class, text string }

func (e rubyError) Error() string      { return e.text }
func (e rubyError) ErrorClass() string { return e.class }

var (
	now  = time.Unix(1795225014, 212558300)
	boom = rubyError{"RuntimeError", "boom"}
)

// decide is a decision about payload, fetched from the queue "default".
func decide(t *testing.T, payload string, edit func(*Failure)) Decision {
	t.Helper()
	in := Failure{Raw: []byte(payload), FetchedFrom: "default", Err: boom}
	if edit != nil {
		edit(&in)
	}
	d := Policy{}.Decide(now, rand.Uint64(), in)
	if string(in.Raw) != payload {
		t.Fatalf("the fetched bytes changed to %s", in.Raw)
	}
	return d
}

func fields(t *testing.T, raw []byte) *troupe.Payload {
	t.Helper()
	p, err := troupe.ParsePayload(raw)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return p
}

func get(p *troupe.Payload, key string) string {
	raw, _ := p.Get(key)
	return string(raw)
}

// The lines are those that Sidekiq 7.3.9 and 8.1.7 wrote for the same failure.
func TestTheBytesAreSidekiqs(t *testing.T) {
	for _, tt := range []struct {
		name, payload, queue string
		err                  error
		now                  time.Time
		form                 troupe.Timestamps
		action               job.Outcome
		want                 string
	}{
		{
			"7: first failure with a retry queue",
			`{"retry":3,"queue":"default","retry_queue":"low","class":"RetryQueueJob","args":[],"jid":"1d568ab56a49fd934a79f42b","created_at":1795225014.209691,"enqueued_at":1795225014.2097554}`,
			"default", rubyError{"RuntimeError", "go low"}, time.Unix(1795225014, 212558300), troupe.TimestampsFloat, Retry,
			`{"retry":3,"queue":"low","retry_queue":"low","class":"RetryQueueJob","args":[],"jid":"1d568ab56a49fd934a79f42b","created_at":1795225014.209691,"enqueued_at":1795225014.2097554,"error_message":"go low","error_class":"RuntimeError","failed_at":1795225014.212558,"retry_count":0}`,
		},
		{
			"8: dead at the first failure",
			`{"retry":0,"queue":"default","class":"DieJob","args":[],"jid":"70a956e770b59efceda96ded","created_at":1795225098321,"enqueued_at":1795225098322}`,
			"default", rubyError{"RuntimeError", "die"}, time.UnixMilli(1795225098323), troupe.TimestampsMillis, Dead,
			`{"retry":0,"queue":"default","class":"DieJob","args":[],"jid":"70a956e770b59efceda96ded","created_at":1795225098321,"enqueued_at":1795225098322,"error_message":"die","error_class":"RuntimeError","failed_at":1795225098323,"retry_count":0}`,
		},
	} {
		d := Policy{Timestamps: tt.form}.Decide(tt.now, rand.Uint64(), Failure{Raw: []byte(tt.payload), FetchedFrom: tt.queue, Err: tt.err})
		if d.Outcome != tt.action || string(d.Payload) != tt.want {
			t.Errorf("%s: %v\n got %s\nwant %s", tt.name, d.Outcome, d.Payload, tt.want)
		}
	}
}

func TestTheFieldRetry(t *testing.T) {
	for _, tt := range []struct {
		payload string
		class   troupe.Retries
		policy  int
		action  job.Outcome
		reason  string
	}{
		{`{"retry":true,"retry_count":23}`, troupe.Retries{}, 0, Retry, becauseFailed},
		{`{"retry":true,"retry_count":24}`, troupe.Retries{}, 0, Dead, becauseExhausted},
		{`{"retry":true,"retry_count":4}`, troupe.Retries{}, 5, Dead, becauseExhausted},
		{`{"retry":true}`, troupe.Times(1), 5, Retry, becauseFailed},
		{`{"retry":true,"retry_count":0}`, troupe.Times(1), 5, Dead, becauseExhausted},
		{`{"retry":true,"retry_count":24}`, troupe.Times(30), 5, Retry, becauseFailed},
		{`{"retry":true}`, troupe.Times(0), 0, Dead, becauseExhausted},
		{`{"retry":true}`, troupe.Never(), 0, Drop, becauseNoRetry},
		{`{"retry":true,"retry_for":60}`, troupe.Never(), 0, Retry, becauseFailed},
		{`{"retry":true,"retry_for":60}`, troupe.Times(0), 0, Retry, becauseFailed},
		{`{"retry":true,"retry_for":null}`, troupe.Times(0), 0, Dead, becauseExhausted},
		{`{"retry":3,"retry_count":1}`, troupe.Times(1), 0, Retry, becauseFailed},
		{`{"retry":0}`, troupe.Times(9), 0, Dead, becauseExhausted},
		{`{"retry":true}`, troupe.Retries{}, -1, Dead, becauseExhausted},
		{`{"retry":3,"retry_count":1}`, troupe.Retries{}, 0, Retry, becauseFailed},
		{`{"retry":3,"retry_count":2}`, troupe.Retries{}, 0, Dead, becauseExhausted},
		{`{"retry":1}`, troupe.Retries{}, 0, Retry, becauseFailed},
		{`{"retry":0}`, troupe.Retries{}, 0, Dead, becauseExhausted},
		{`{"retry":-0}`, troupe.Retries{}, 0, Dead, becauseExhausted},
		{`{"retry":-5}`, troupe.Retries{}, 0, Dead, becauseExhausted},
		{`{"retry":123456789012345678901234567890,"retry_count":99}`, troupe.Retries{}, 0, Retry, becauseFailed},
		{`{"retry":-123456789012345678901234567890}`, troupe.Retries{}, 0, Dead, becauseExhausted},
		{`{"retry":false}`, troupe.Times(9), 0, Drop, becauseNoRetry},
		{`{"retry":"false","retry_count":20}`, troupe.Retries{}, 0, Retry, becauseFailed},
		{`{"retry":"false","retry_count":20}`, troupe.Times(9), 0, Dead, becauseExhausted},
		{`{"retry":5.0,"retry_count":20}`, troupe.Retries{}, 0, Retry, becauseFailed},
		{`{"retry":1e0,"retry_count":20}`, troupe.Retries{}, 0, Retry, becauseFailed},
		{`{"retry":"3","retry_count":20}`, troupe.Retries{}, 0, Retry, becauseFailed},
		{`{"retry":[],"retry_count":24}`, troupe.Retries{}, 0, Dead, becauseExhausted},
		{`{"retry":null,"retry_count":23}`, troupe.Retries{}, 0, Retry, becauseFailed},
		{`{"retry":null}`, troupe.Never(), 0, Drop, becauseNoRetry},
		{`{"retry":null}`, troupe.Times(0), 0, Dead, becauseExhausted},
		{`{}`, troupe.Retries{}, 0, Retry, becauseFailed},
		{`{"retry_count":24}`, troupe.Retries{}, 0, Dead, becauseExhausted},
		{`{}`, troupe.Never(), 0, Drop, becauseNoRetry},
		{`{"retry_count":0}`, troupe.Times(1), 0, Dead, becauseExhausted},
	} {
		d := Policy{MaxRetries: tt.policy}.Decide(now, rand.Uint64(), Failure{
			Raw: []byte(tt.payload), FetchedFrom: "default", Err: boom, Options: troupe.Options{Retries: tt.class},
		})
		if d.Outcome != tt.action || d.Reason != tt.reason {
			t.Errorf("%s, class %+v, policy %d: %v (%s), want %v (%s)", tt.payload, tt.class, tt.policy, d.Outcome, d.Reason, tt.action, tt.reason)
		}
		if d.RunDeathHandlers != (d.Outcome != Retry) || (d.DeathPayload != nil) != d.RunDeathHandlers {
			t.Errorf("%s: %v and death handlers %v", tt.payload, d.Outcome, d.RunDeathHandlers)
		}
	}
}

func TestRetryFalseIsNotRecordedAnywhere(t *testing.T) {
	payload := `{"retry":false,"class":"A","args":[]}`
	for name, err := range map[string]error{"failed": boom, "killed": troupe.Kill(boom)} {
		d := decide(t, payload, func(f *Failure) { f.Err = err })
		if d.Outcome != Drop || d.Payload != nil || d.RetryCount != notCounted || string(d.DeathPayload.Bytes()) != payload {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestAnUnknownClassIsRetried(t *testing.T) {
	unknown := func(f *Failure) {
		f.UnknownClass, f.Err = true, &troupe.UnknownClassError{Class: "Gone"}
		f.Options = troupe.Options{Retries: troupe.Never()} // not the class's own: it has none
	}
	for payload, want := range map[string]job.Outcome{`{"class":"Gone"}`: Retry, `{"retry":null}`: Retry, `{"retry":false}`: Drop, `{"retry":0}`: Dead} {
		d := decide(t, payload, unknown)
		if d.Outcome != want {
			t.Errorf("%s: %v, want %v", payload, d.Outcome, want)
		}
		if d.Outcome != Drop && get(fields(t, d.Payload), "error_class") == `""` {
			t.Errorf("%s: no error class", payload)
		}
	}
}

func TestRetryCount(t *testing.T) {
	const failedAt = `"failed_at":1795220000.5`
	for name, tt := range map[string]struct {
		payload             string
		count               int64
		failedAt, retriedAt bool // the first kept, the second written
	}{
		"first failure":                   {`{"retry":9}`, 0, false, false},
		"null is a first failure":         {`{"retry_count":null,` + failedAt + `}`, 0, false, false},
		"second":                          {`{"retry_count":0,` + failedAt + `}`, 1, true, true},
		"later":                           {`{"retry_count":7,` + failedAt + `}`, 8, true, true},
		"a first failure retried by hand": {`{"retry_count":-1,` + failedAt + `}`, 0, true, true},
		"below -1":                        {`{"retry_count":-9,` + failedAt + `}`, 0, true, true},
		"a string with a number":          {`{"retry_count":"3",` + failedAt + `}`, 4, true, true},
		"a float":                         {`{"retry_count":3.9,` + failedAt + `}`, 4, true, true},
		"a word":                          {`{"retry_count":"many",` + failedAt + `}`, 0, true, true},
		"nothing in a string":             {`{"retry_count":"",` + failedAt + `}`, 0, true, true},
		"an array":                        {`{"retry_count":[3],` + failedAt + `}`, 0, true, true},
		"true":                            {`{"retry_count":true,` + failedAt + `}`, 0, true, true},
		"without failed_at":               {`{"retry_count":2}`, 3, false, true},
		"with a failed_at of null":        {`{"retry_count":2,"failed_at":null}`, 3, false, true},
		"with a failed_at of nonsense":    {`{"retry_count":2,"failed_at":"soon"}`, 3, false, true},
	} {
		d := decide(t, tt.payload, nil)
		p := fields(t, d.Payload)
		if d.Outcome != Retry || d.RetryCount != tt.count || get(p, "retry_count") != fmt.Sprint(tt.count) {
			t.Errorf("%s: %v, count %d, stored %s", name, d.Outcome, d.RetryCount, get(p, "retry_count"))
		}
		wantFailed, wantRetried := "1795225014.212558", ""
		if tt.failedAt {
			wantFailed = "1795220000.5"
		}
		if tt.retriedAt {
			wantRetried = "1795225014.212558"
		}
		if get(p, "failed_at") != wantFailed || get(p, "retried_at") != wantRetried {
			t.Errorf("%s: failed_at %s, retried_at %q", name, get(p, "failed_at"), get(p, "retried_at"))
		}
	}
}

func TestFailedAtIsKeptByteForByte(t *testing.T) {
	for _, text := range []string{`1795220000.50`, `1.7952200005e9`, `1795220000500`, `1795220000`, `"1795220000.5"`, `"2026-11-21T01:53:20Z"`} {
		d := decide(t, `{"retry_count":0,"failed_at":`+text+`}`, nil)
		if got := get(fields(t, d.Payload), "failed_at"); got != text {
			t.Errorf("failed_at %s became %s", text, got)
		}
	}
}

func TestRetryFor(t *testing.T) {
	const ago10 = `"failed_at":1795225004.2125583` // ten seconds before now
	for payload, want := range map[string]job.Outcome{
		`{"retry":0,"retry_for":1000}`:                                                                     Retry, // only the time counts
		`{"retry":-1,"retry_for":1000}`:                                                                    Retry,
		`{"retry":1,"retry_for":11,"retry_count":99,` + ago10 + `}`:                                        Retry,
		`{"retry":99,"retry_for":9,"retry_count":0,` + ago10 + `}`:                                         Dead,
		`{"retry":true,"retry_for":0}`:                                                                     Dead,
		`{"retry":true,"retry_for":-5}`:                                                                    Dead,
		`{"retry":false,"retry_for":1000}`:                                                                 Drop,
		`{"retry":true,"retry_for":1,"retry_count":5}`:                                                     Retry, // no first failure: it begins now
		`{"retry":true,"retry_for":9,"retry_count":5,"failed_at":1795225004212}`:                           Dead,
		`{"retry":true,"retry_for":11,"retry_count":5,"failed_at":1795225004212}`:                          Retry,
		`{"retry":true,"retry_for":9,"retry_count":5,"failed_at":"1795225004.2"}`:                          Dead,
		`{"retry":true,"retry_for":10,"retry_count":5,"failed_at":"2026-11-21T01:36:44Z"}`:                 Dead,
		`{"retry":true,"retry_for":99,"retry_count":5,"failed_at":"?"}`:                                    Retry,
		`{"retry":true,"retry_for":"9","retry_count":5,` + ago10 + `}`:                                     Dead,
		`{"retry":true,"retry_for":11.9,"retry_count":5,` + ago10 + `}`:                                    Retry,
		`{"retry":1,"retry_for":true,"retry_count":5,` + ago10 + `}`:                                       Dead, // no time: the count
		`{"retry":1,"retry_for":"soon","retry_count":5,` + ago10 + `}`:                                     Dead,
		`{"retry":9,"retry_for":null,"retry_count":5,` + ago10 + `}`:                                       Retry,
		`{"retry":9,"retry_for":false,"retry_count":8,` + ago10 + `}`:                                      Dead,
		`{"retry":1,"retry_for":1e99,"retry_count":5,` + ago10 + `}`:                                       Retry,
		`{"retry":1,"retry_for":123456789012345678901234567890,"retry_count":1099511627776,` + ago10 + `}`: Retry,
	} {
		if d := decide(t, payload, nil); d.Outcome != want {
			t.Errorf("%s: %v (%s), want %v", payload, d.Outcome, d.Reason, want)
		}
	}
}

func TestTheQueueOfTheRetry(t *testing.T) {
	for payload, want := range map[string]string{
		`{"queue":"other"}`:                                `{"queue":"default"`, // the one it was fetched from
		`{"queue":"d\u0065fault"}`:                         `{"queue":"d\u0065fault"`,
		`{"queue":5}`:                                      `{"queue":"default"`,
		`{"class":"A","args":[]}`:                          `{"class":"A","args":[],"queue":"default"`,
		`{"queue":"default","retry_queue":"low"}`:          `{"queue":"low"`,
		`{"queue":"default","retry_queue":""}`:             `{"queue":"default"`,
		`{"queue":"default","retry_queue":null}`:           `{"queue":"default"`,
		`{"queue":"default","retry_queue":5}`:              `{"queue":"default"`,
		`{"queue":"x","queue":"default","retry_queue":[]}`: `{"queue":"default"`,
	} {
		if d := decide(t, payload, nil); !strings.HasPrefix(string(d.Payload), want+",") {
			t.Errorf("%s: %s, want %s", payload, d.Payload, want)
		}
	}
}

func TestErrorMessage(t *testing.T) {
	long := strings.Repeat("é", 20_000)
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"plain":                {errors.New("a\nb\x00<>&"), "a\nb\x00<>&"},
		"empty":                {errors.New(""), ""},
		"20,000 characters":    {errors.New(long), long[:20_000]},
		"10,000 characters":    {errors.New(long[:20_000]), long[:20_000]},
		"invalid bytes":        {errors.New("a\xffb\xe2\x82"), "a\ufffdb\ufffd\ufffd"},
		"invalid and too long": {errors.New(strings.Repeat("\xff", 20_000)), strings.Repeat("\ufffd", 10_000)},
		"Error panics":         {panicky{}, unreadable},
		"a nil pointer":        {(*troupe.PanicError)(nil), unreadable},
		"a bare kill":          {troupe.RetryIn(time.Second, nil), "job to be retried in 1s"},
		"no error at all":      {nil, "failed without an error"},
	} {
		d := decide(t, `{}`, func(f *Failure) { f.Err = tt.err })
		p := fields(t, d.Payload)
		got, _ := p.String("error_message")
		if got != tt.want || !utf8.Valid(d.Payload) {
			t.Errorf("%s: %.60q…", name, got)
		}
		if class, ok := p.String("error_class"); !ok || class == "" {
			t.Errorf("%s: error_class %q", name, class)
		}
	}
}

func TestAJobThatIsNotUTF8DiesAsItIs(t *testing.T) {
	for _, payload := range []string{
		"{\"class\":\"A\",\"args\":[\"\xff\"],\"retry\":true}",
		"{\"class\":\"A\",\"args\":[],\"\xc3\":1}",
		"{ \"class\" : \"A\\u0041\xe2\x82\" }",
	} {
		d := decide(t, payload, nil)
		if d.Outcome != Dead || d.Reason != becauseUnwritten || string(d.Payload) != payload || !d.RunDeathHandlers || d.RetryCount != notCounted {
			t.Errorf("%q: %+v", payload, d)
		}
	}
	d := decide(t, "{\"retry\":0,\"args\":[\"\xff\"]}", nil)
	if d.Outcome != Dead || d.Reason != becauseExhausted || string(d.Payload) != "{\"retry\":0,\"args\":[\"\xff\"]}" {
		t.Errorf("exhausted: %+v", d)
	}
	d = decide(t, `{"retry":5}`, func(f *Failure) { f.FetchedFrom = "q\xff" })
	if d.Outcome != Dead || string(d.Payload) != `{"retry":5}` {
		t.Errorf("a queue that is not UTF-8: %+v", d)
	}
	d = decide(t, "{\"error_message\":\"\xff\",\"retry_count\":1}", nil)
	if d.Outcome != Retry || !utf8.Valid(d.Payload) {
		t.Errorf("bytes that are replaced anyway: %v %q", d.Outcome, d.Payload)
	}
}

func TestTheBoundsOfTheDeadSet(t *testing.T) {
	for _, tt := range []struct {
		pol    Policy
		before float64
		max    int
	}{
		{Policy{}, 1795225014.212558 - 15552000, 10_000},
		{Policy{DeadMax: 5, DeadTimeout: time.Hour}, 1795225014.212558 - 3600, 5},
		{Policy{DeadMax: -1, DeadTimeout: -1}, 0, 0},
	} {
		d := tt.pol.Decide(now, rand.Uint64(), Failure{Raw: []byte(`{"retry":0}`), FetchedFrom: "q", Err: boom})
		if d.Outcome != Dead || d.Score != scores.Of(now) || math.Abs(d.Trim.Before-tt.before) > 1e-6 || d.Trim.Max != tt.max {
			t.Errorf("%+v: %+v", tt.pol, d)
		}
	}
}

func TestThePayloadGivenIsNotTouched(t *testing.T) {
	raw := []byte(`{"class":"A","retry":0,"queue":"x"}`)
	p := fields(t, raw)
	d := Policy{}.Decide(now, rand.Uint64(), Failure{Raw: raw, FetchedFrom: "default", Payload: p, Err: boom})
	d.DeathPayload.Set("class", nil)
	if string(p.Bytes()) != string(raw) || get(fields(t, d.Payload), "class") != `"A"` {
		t.Errorf("payload %s, stored %s", p.Bytes(), d.Payload)
	}
}

// The callback of a class is told the attempt that has failed, as the handler was.
func TestRetryInIsToldTheAttempt(t *testing.T) {
	for payload, want := range map[string]int{`{"retry":true}`: 1, `{"retry":true,"retry_count":0}`: 2, `{"retry":true,"retry_count":3}`: 5} {
		got := 0
		decide(t, payload, func(f *Failure) {
			f.Options.RetryIn = func(attempt int, _ error, _ *troupe.Payload) troupe.Delay { got = attempt; return 0 }
		})
		if got != want {
			t.Errorf("%s: attempt %d, want %d", payload, got, want)
		}
	}
}
