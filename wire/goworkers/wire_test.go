package goworkers

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/retry"
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
		policy := retry.Policy{Rules: New(Options{Namespace: "ns"}).Rules}
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
	policy := retry.Policy{Rules: New(Options{Namespace: "ns"}).Rules}
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

func TestParse(t *testing.T) {
	for job, want := range map[string]string{
		`{"args":{"k":1}}`:                `[{"k":1}]`,
		`{"args":12345678901234567890}`:   `[12345678901234567890]`,
		`{"args":[1,{"a":2}]}`:            `[1,{"a":2}]`,
		`{"args":null}`:                   `[null]`,
		`{}`:                              `[]`,
		`{"args":"x","retry":true,"y":1}`: `["x"]`,
	} {
		p, err := parse([]byte(job), "")
		if err != nil || string(p.Args()) != want {
			t.Errorf("%s: %s, %v", job, p.Args(), err)
		}
	}
	p, err := parse([]byte(`{"class":"Add","args":[]}`), "Mail")
	if err != nil || p.Class() != "Mail" {
		t.Errorf("class %q, %v", p.Class(), err)
	}
	if _, err := parse([]byte(`[]`), ""); err == nil {
		t.Error("no error of what is no job")
	}
}

func TestPromote(t *testing.T) {
	n := namespace("ns")
	for job, want := range map[string]string{
		`{"queue":"ns:q","at":5,"enqueued_at":1,"x":1e3}`: `{"queue":"q","enqueued_at":1000000000.5,"x":1e3}`,
		`{"queue":"ns:ns:q","at":5}`:                      `{"queue":"ns:q","enqueued_at":1000000000.5}`,
		`{"queue":"q"}`:                                   `{"queue":"q","enqueued_at":1000000000.5}`,
	} {
		p, err := troupe.ParsePayload([]byte(job))
		if err != nil {
			t.Fatal(err)
		}
		got, err := n.promote(p, time.Unix(1e9, 5e8))
		if err != nil || string(got.Bytes()) != want {
			t.Errorf("%s: %s, %v", job, got.Bytes(), err)
		}
	}
	for _, job := range []string{`{}`, `{"queue":{}}`, `{"queue":"ns:"}`} {
		p, _ := troupe.ParsePayload([]byte(job))
		if _, err := n.promote(p, time.Now()); err == nil {
			t.Errorf("%s: no error", job)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, n := range []namespace{"", "app"} {
		prefix := n.prefix()
		for key, want := range map[string]string{
			"queue:retry": "queue:retry", "retry": "goretry", "schedule": "schedule", "troupe:places": "troupe:places",
			"troupe:poller": "troupe:goworkers:poller", "troupe:poller:standby": "troupe:goworkers:poller:standby", "troupe:flushed:a:1:b": "troupe:goworkers:flushed:a:1:b",
		} {
			if got := n.key(key); got != prefix+want {
				t.Errorf("%s: %s, want %s", key, got, prefix+want)
			}
		}
	}
}
