package flight

import (
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/job"
)

// A panic of a job is one record, whatever else happens between its records; what belongs to none stays.
func TestFold(t *testing.T) {
	now := time.Now()
	rec := func(ms int, process, actor, kind, jid, text string) Record {
		r := Record{At: now.Add(time.Duration(ms) * time.Millisecond), Process: process, Actor: actor, Kind: kind, JID: jid, Text: text}
		if jid != "" {
			r.Class = "Work"
		}
		return r
	}
	lines := func(all []Record) (s string) {
		for _, r := range all {
			s += strings.Join(strings.Fields(r.Process+" "+r.Actor+" "+r.Kind+" "+r.JID+" "+r.Text), " ") + "\n"
		}
		return s
	}
	got := lines(Fold([]Record{
		rec(0, "p", "a", job.Failed.Kind(), "1", "panic: boom"),
		rec(0, "q", "a", job.Failed.Kind(), "9", "an error"),
		rec(1, "p", "a", job.Retried.Kind(), "1", "next attempt at noon"),
		rec(2, "q", "a", job.Retried.Kind(), "9", "next attempt at noon"),
		rec(3, "p", "b", job.Failed.Kind(), "2", "panic: bang"),
		rec(4, "p", "a", Crashed, "", "job Work 1: panic: boom"),
		rec(5, "p", "b", job.Died.Kind(), "2", ""),
		rec(6, "p", "a", Restarted, "", "restart 1"),
		rec(7, "p", "b", Crashed, "", "job Work 2: panic: bang"),
		rec(8, "p", "c", Crashed, "", "a fault of an actor"),
		rec(9, "p", "c", Restarted, "", "restart 1"),
		rec(10, "p", "b", Crashed, "", "another"),
		rec(11, "p", "b", Restarted, "", "restart 2"),
		rec(12, "p", "d", Crashed, "", "job Work 7: whose failure is not kept"),
		rec(13, "p", "e", job.Failed.Kind(), "5", "panic: late"),
		rec(90000, "p", "e", Crashed, "", "job Work 5: panic: late"),
	}))
	want := `p a job crashed 1 panic: boom; retried, next attempt at noon; its actor: restart 1
q a job failed 9 an error
q a job retried 9 next attempt at noon
p b job crashed 2 panic: bang; died
p c actor crashed a fault of an actor
p c actor restarted restart 1
p b actor crashed another
p b actor restarted restart 2
p d actor crashed job Work 7: whose failure is not kept
p e job failed 5 panic: late
p e actor crashed job Work 5: panic: late
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
