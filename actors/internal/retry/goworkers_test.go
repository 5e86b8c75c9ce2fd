package retry_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/wire/goworkers"
)

func TestHowOftenAJobRunsThatAlwaysFails(t *testing.T) {
	for job, want := range map[string]int{
		`{"retry":true}`:                  27,
		`{"retry":true,"retry_max":1}`:    3,
		`{"retry":true,"retry_max":0}`:    1,
		`{"retry":true,"retry_max":-1}`:   27,
		`{"retry":true,"retry_max":"1"}`:  27,
		`{"retry":2}`:                     4,
		`{"retry":0}`:                     1,
		`{"retry":2,"retry_max":9}`:       4,
		`{"retry":"5"}`:                   1,
		`{"retry":false}`:                 1,
		`{"retry":null}`:                  1,
		`{}`:                              1,
		`{"retry":true,"retry_count":24}`: 2,
	} {
		policy := retry.Policy{Rules: goworkers.New(goworkers.Options{Namespace: "ns"}).Rules}
		now, raw, runs := time.Unix(1e9, 0), []byte(job), 0
		for {
			runs++
			d := policy.Decide(now, 0, retry.Failure{Raw: raw, FetchedFrom: "q", Err: errors.New("no")})
			if d.Outcome != retry.Retry {
				break
			}
			raw = d.Payload
		}
		harness.Equal(t, job+": runs", runs, want)
	}
}

func TestAFailureIsWrittenAsGoWorkersDoes(t *testing.T) {
	policy := retry.Policy{Rules: goworkers.New(goworkers.Options{Namespace: "ns"}).Rules}
	decide := func(raw string, now int64, random uint64, err error) retry.Decision {
		return policy.Decide(time.Unix(now, 0), random, retry.Failure{Raw: []byte(raw), FetchedFrom: "q", Err: err})
	}
	first := decide(`{"jid":"1","x":12345678901234567890,"queue":"q","retry":true}`, 1e9, 1<<63, errors.New("no"))
	want := `{"jid":"1","x":12345678901234567890,"queue":"ns:q","retry":true,"error_message":"no","failed_at":"2001-09-09 01:46:40 UTC","retry_count":0}`
	if diff := cmp.Diff(want, string(first.Payload)); diff != "" || first.Score != 1e9+15+15 {
		t.Errorf("%s\nscore %f", diff, first.Score)
	}
	second := decide(string(first.Payload), 1e9+60, 0, errors.New("again"))
	want = `{"jid":"1","x":12345678901234567890,"queue":"ns:q","retry":true,"error_message":"again","failed_at":"2001-09-09 01:46:40 UTC","retry_count":1,"retried_at":"2001-09-09 01:47:40 UTC"}`
	if diff := cmp.Diff(want, string(second.Payload)); diff != "" || second.Score != 1e9+60+16 {
		t.Errorf("%s\nscore %f", diff, second.Score)
	}
	for outcome, want := range map[error]job.Outcome{
		troupe.Kill(nil): retry.Dead, troupe.Discard(nil): retry.Drop, troupe.Park(time.Hour, nil): retry.Park, troupe.RetryIn(time.Hour, nil): retry.Retry,
	} {
		d := decide(`{"retry":true}`, 1e9, 1<<63, outcome)
		if d.Outcome != want {
			t.Errorf("%v: %s, want %s", outcome, d.Outcome, want)
		}
		if want == retry.Retry && d.Score != 1e9+3600 {
			t.Errorf("RetryIn: score %f", d.Score)
		}
	}
	if d := decide(`{}`, 1e9, 0, troupe.RetryIn(time.Hour, nil)); d.Outcome != retry.Drop {
		t.Errorf("RetryIn of a job that is not to be retried: %s", d.Outcome)
	}
	if d := decide(`[1]`, 1e9, 0, nil); d.Outcome != retry.Dead {
		t.Errorf("no job: %s", d.Outcome)
	}
}
