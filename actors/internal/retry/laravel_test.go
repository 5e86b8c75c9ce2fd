package retry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/wire/laravel"
)

var now = time.Unix(1_795_000_000, 0)

// attempts reads the field, a number or a text of one.
func attempts(p *troupe.Payload) int {
	raw, _ := p.Get("attempts")
	n, _ := strconv.Atoi(strings.Trim(string(raw), `"`))
	return n
}

func payloadOf(t *testing.T, fields string) *troupe.Payload {
	t.Helper()
	p := harness.Must(troupe.ParsePayload([]byte(`{"job":"x","data":{"attempts":9},` + fields + `}`)))(t)
	return p
}

// Laravel's tests before a run and after an exception.
func TestRules(t *testing.T) {
	const before, after = `"retryUntil":1795000001`, `"retryUntil":1795000000`
	for _, c := range []struct {
		fields  string
		tries   int
		err     error
		runs    bool
		retried bool
		wait    float64
	}{
		{`"attempts":0,"maxTries":null`, 0, nil, true, false, 0},
		{`"attempts":1,"maxTries":null`, 0, nil, false, false, 0},
		{`"attempts":0`, 2, nil, true, true, 0},
		{`"attempts":"1"`, 2, nil, true, false, 0},
		{`"attempts":99,"maxTries":0`, 1, nil, true, true, 0},
		{`"attempts":99`, -1, nil, true, true, 0},
		{`"attempts":1,"maxTries":3,"backoff":"1,2,5"`, 0, nil, true, true, 2},
		{`"attempts":7,"maxTries":9,"backoff":"1,2,5"`, 0, nil, true, true, 5},
		{`"attempts":1,"maxTries":3,"backoff":7`, 0, nil, true, true, 7},
		{`"attempts":0,"maxTries":3,"backoff":null,"delay":4`, 0, nil, true, true, 4},
		{`"attempts":0,"maxTries":3`, 0, nil, true, true, 30},
		// As PHP compares and converts what is odd.
		{`"attempts":0,"maxTries":3,"backoff":"x"`, 0, nil, true, true, 0},
		{`"attempts":0,"maxTries":3,"backoff":"","delay":4`, 0, nil, true, true, 0},
		{`"attempts":0,"maxTries":3,"backoff":false`, 0, nil, true, true, 0},
		{`"attempts":0,"maxTries":3,"backoff":-5`, 0, nil, true, true, 0},
		{`"attempts":0,"maxTries":3,"backoff":"12s,3"`, 0, nil, true, true, 12},
		{`"attempts":0,"maxTries":3,"backoff":1.9`, 0, nil, true, true, 1},
		{`"attempts":0,"maxTries":-1`, 0, nil, false, false, 0},
		{`"attempts":0,"maxTries":"0"`, 0, nil, false, false, 0},
		{`"attempts":0,"maxTries":0.5`, 0, nil, false, false, 0},
		{`"attempts":0,"maxTries":3,"retryUntil":0`, 0, nil, true, true, 0},
		{`"attempts":0,"maxTries":9,"maxExceptions":0`, 0, nil, true, false, 0},
		{`"attempts":0,"maxTries":9,"maxExceptions":-1`, 0, nil, true, false, 0},
		{`"attempts":0,"maxTries":9,"maxExceptions":0`, 0, troupe.RetryIn(3*time.Second, nil), true, true, 3},
		{`"attempts":5,"maxTries":1,` + before, 0, nil, true, true, 0},
		{`"attempts":0,"maxTries":9,` + after, 0, nil, true, false, 0},
		{`"attempts":0,"maxTries":9,"retryUntil":1794999999`, 0, nil, false, false, 0},
		{`"attempts":0,"timeoutAt":1794999999`, 0, nil, false, false, 0},
		{`"attempts":0,"maxTries":9,"maxExceptions":2`, 0, nil, true, true, 0},
		{`"attempts":1,"maxTries":9,"maxExceptions":2,"troupeExceptions":1`, 0, nil, true, false, 0},
		{`"attempts":1,"maxTries":9,"maxExceptions":2,"troupeExceptions":1`, 0, troupe.RetryIn(3*time.Second, nil), true, true, 3},
		{`"attempts":0,"maxTries":9,"failOnTimeout":true`, 0, fmt.Errorf("late: %w", troupe.ErrJobTimeout), true, false, 0},
		{`"attempts":0,"maxTries":9,"failOnTimeout":false`, 0, fmt.Errorf("late: %w", troupe.ErrJobTimeout), true, true, 0},
		{`"attempts":0,"maxTries":9`, 0, troupe.Kill(errors.New("x")), true, false, 0},
	} {
		o := laravel.Options{Tries: c.tries}
		if c.wait == 30 {
			o.Backoff = []time.Duration{30 * time.Second}
		}
		w, err := laravel.New(o)
		harness.OK(t, err)
		p := payloadOf(t, c.fields)
		err = w.Check(p, now)
		if (err == nil) != c.runs {
			t.Errorf("%s: check says %v, expected it to run: %v", c.fields, err, c.runs)
		}
		if err != nil && !errors.As(err, new(*laravel.MaxAttemptsError)) {
			t.Errorf("%s: error %v of type %T", c.fields, err, err)
		}
		failure := c.err
		if failure == nil {
			failure = errors.New("boom")
		}
		d := retry.Policy{Rules: w.Rules}.Decide(now, 0, retry.Failure{Raw: p.Bytes(), FetchedFrom: "q", Err: failure})
		if (d.Outcome == retry.Retry) != c.retried || d.Wait != c.wait {
			t.Errorf("%s after %v: %s in %v s, expected a retry: %v, in %v s", c.fields, failure, d.Outcome, d.Wait, c.retried, c.wait)
		}
		if d.Outcome == retry.Dead {
			line, payload, _ := bytes.Cut(d.Payload, []byte("\n"))
			var row struct{ Queue, Exception string }
			if err := json.Unmarshal(line, &row); err != nil || string(payload) != string(p.Bytes()) || row.Queue != "q" || row.Exception == "" {
				t.Errorf("%s: the row is %q, %v", c.fields, d.Payload, err)
			}
			continue
		}
		if q, _ := troupe.ParsePayload(d.Payload); q != nil && attempts(q) != attempts(p)+1 {
			t.Errorf("%s: the retry is %s", c.fields, d.Payload)
		}
	}
}

func TestAParkIsNoAttempt(t *testing.T) {
	w, _ := laravel.New(laravel.Options{})
	raw := []byte(`{"job":"x","queue":"q","data":1,"attempts":0}`)
	d := retry.Policy{Rules: w.Rules}.Decide(now, 0, retry.Failure{Raw: raw, FetchedFrom: "q", Err: troupe.Park(time.Hour, nil)})
	if d.Outcome != retry.Park || d.Payload != nil && string(d.Payload) != string(raw) {
		t.Errorf("%s %s", d.Outcome, d.Payload)
	}
}
