package web

import (
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/flight"
	outcomes "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
)

// Events are found by a part of a process, also those that others tell about it, and by the kinds that there are.
func TestEventsAreFound(t *testing.T) {
	s := start(t)
	now := time.Now()
	for i := range 40 {
		s.record("loop:1:x", flight.Record{At: now.Add(time.Duration(i) * time.Second), Kind: flight.Crashed, Text: "no card"}, flight.Record{At: now, Kind: flight.Restarted})
	}
	s.record("saver:2:x", flight.Record{At: now, Kind: flight.Rescued, Text: "3 jobs of dead processes put back: worker-7:977:ab"}, flight.Record{At: now, Kind: flight.Stop, Text: "bye"})
	s.record("worker-7:977:ab", flight.Record{At: now, Kind: outcomes.Failed.Kind(), Text: "it failed"})
	page := s.get("/events")
	contains(t, "the page", page, `<a href="/events?kind=actor&#43;crashed">actor crashed <span class="n">40</span></a>`, `<a href="/events?kind=jobs&#43;rescued">`, `<span class="state warn"><span class="sign" aria-hidden="true">↻</span>actor restarted`)
	page = s.get("/events?process=worker-7")
	contains(t, "a process", page, "put back: worker-7:977:ab", "it failed")
	hasNot(t, "a process", page, "no card", "bye")
	page = s.get("/events?restarts=no")
	contains(t, "without restarts", page, "it failed", "bye", `name="restarts" value="no" checked`)
	hasNot(t, "without restarts", page, "no card", "actor crashed", "actor restarted")
	page = s.get("/events?kind=recsued&process=worker-7")
	contains(t, "no such kind", page, "No such event", "There are: job failed, jobs rescued. A kind")
	contains(t, "no such process", s.get("/events?process=none"), "There are: actor crashed, actor restarted, job failed, jobs rescued, stop.")
	harness.Equal(t, "of a kind", strings.Count(s.get("/events?kind=crash"), "no card"), 40)
}
