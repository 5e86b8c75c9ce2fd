package goworkers

import (
	"testing"
	"time"

	"github.com/troupehq/troupe"
)

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
