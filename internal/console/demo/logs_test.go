package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestNotesGatherLinesThatTellTheSame(t *testing.T) {
	var n notes
	log := zerolog.New(&n)
	for i := range 3 {
		log.Warn().Str("class", "Demo::Flaky").Str("jid", fmt.Sprint(i)).Str("outcome", "retry").Err(fmt.Errorf("failure %d", i)).Msg("job failed")
		log.Info().Str("class", "Demo::Quick").Str("outcome", "done").Msg("job done")
		log.Error().Str("actor", fmt.Sprintf("launcher/default/processor-%d", i)).Msg("an actor crashed")
	}
	_, _ = n.Write([]byte("no JSON\n"))
	var got []string
	for _, note := range n.latest() {
		got = append(got, fmt.Sprintf("%s %s %d", note.level, note.text, note.count))
	}
	want := []string{
		"error an actor crashed  launcher/default/processor-0 1",
		"error an actor crashed  launcher/default/processor-1 1",
		"warn job failed  Demo::Flaky  failure 2 (retry) 3",
		"error an actor crashed  launcher/default/processor-2 1",
		"info no JSON 1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, expected %q", got, want)
	}
}

func TestNotesAreBounded(t *testing.T) {
	var n notes
	log := zerolog.New(&n)
	for i := range 10 * maxNotes {
		log.Warn().Msg(fmt.Sprint(i))
	}
	got := n.latest()
	if len(got) != maxNotes || got[maxNotes-1].text != fmt.Sprint(10*maxNotes-1) {
		t.Errorf("%d kept, the last is %q", len(got), got[len(got)-1].text)
	}
}

func TestSieve(t *testing.T) {
	var out bytes.Buffer
	s := &sieve{to: &out, seen: map[string]*repeat{}}
	log := zerolog.New(s)
	failed := func(class string) {
		log.Warn().Str("class", class).Str("outcome", "retry").Err(errors.New("boom")).Msg("job failed")
	}
	for range 4 {
		failed("A")
	}
	failed("B")
	log.Info().Str("class", "A").Str("outcome", "done").Msg("job done")
	if got := strings.Count(out.String(), "\n"); got != 2 {
		t.Errorf("%d lines, expected one for A and one for B:\n%s", got, out.String())
	}
	for _, r := range s.seen {
		r.written = r.written.Add(-repeatEvery)
	}
	out.Reset()
	failed("A")
	var line struct {
		Class, Error string
		Repeated     int
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Repeated != 3 || line.Error != "boom" {
		t.Errorf("%v in %q, expected repeated 3", err, out.String())
	}
	for i := range 10 * maxSeen {
		failed(fmt.Sprint(i))
	}
	if len(s.seen) > maxSeen {
		t.Errorf("the sieve remembers %d", len(s.seen))
	}
	s.end()
	out.Reset()
	failed("late")
	if out.Len() > 0 {
		t.Errorf("written after the end: %s", out.String())
	}
}

func TestLinesTellRestartsAndTheTree(t *testing.T) {
	var out harness.Buffer
	l := newLines(&out, true, false)
	shot := picture(5)
	shot.Tree = shot.Tree[:1] // not grown yet
	l.show(shot)
	l.show(picture(5))
	l.show(picture(5))
	stopping := picture(5)
	stopping.Phase = phaseStopping
	l.show(stopping)
	l.show(stopping)
	count := map[string]int{}
	for line := range strings.Lines(out.String()) {
		var fields struct {
			Message, Actor, Phase string
			Restarts              int
			Dead                  int
			P99                   float64 `json:"start_p99_ms"`
			Time                  time.Time
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		count[fields.Message]++
		switch fields.Message {
		case "an actor was restarted":
			if fields.Actor != "launcher/default/processor-3" || fields.Restarts != 2 {
				t.Errorf("restart line: %s", line)
			}
		case "demo":
			if fields.Dead != 2 || fields.P99 != 4.31 || fields.Phase == "" {
				t.Errorf("summary: %s", line)
			}
		}
	}
	if count["demo"] != 5 || count["an actor was restarted"] != 1 || count["tree"] != 2*len(picture(5).Tree) {
		t.Errorf("lines: %v", count)
	}
}
