package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What is wrong is told in sentences, the worst first.
func TestWrong(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d - time.Second/2) }
	processes := []Process{
		{Identity: "fine", Phase: Running, Beat: now, Pulse: &beat.Pulse{Capsules: []beat.PulseCapsule{{Busy: 1}}}},
		{Identity: "ruby", Phase: Running, Beat: now},
		{Identity: "silent", Phase: Silent, Beat: ago(40 * time.Second)},
		{Identity: "ill", Phase: Running, Beat: now, Pulse: &beat.Pulse{
			Unresponsive: 2, Recent: 3, Failure: "default/processor-1: panic: boom", Actors: map[string]string{"poller": "crashed", "default/fetcher": "restarting"},
			Capsules: []beat.PulseCapsule{{Name: "default", Down: 1, Held: 1}, {Name: "mail", Busy: 5}},
		}},
		{Identity: "mute", Phase: Running, Beat: now, Pulse: &beat.Pulse{Log: "blocked", Dropped: 7}},
		{Identity: "quiet", Phase: Quiet, Beat: now, Pulse: &beat.Pulse{Actors: map[string]string{"default/fetcher": "stopped"}, Capsules: []beat.PulseCapsule{{Stopped: 5}}}},
		{Identity: "dead", Phase: Gone, Beat: ago(3 * time.Minute), Busy: 1},
	}
	queues := []Queue{
		{Name: "empty", Paused: true}, {Name: "fine", Waiting: 9, Latency: 2, Listeners: 1}, {Name: "slow", Waiting: 9, Latency: 300, Listeners: 1},
		{Name: "paused", Waiting: 1, Paused: true}, {Name: "quiet", Waiting: 2, Quiet: 1}, {Name: "alone", Waiting: 3}, {Name: "alone.suspects", Waiting: 3},
	}
	want := []string{
		"danger gone dead: dead is gone: its last beat was 3m ago, with 1 job.",
		"danger quiet quiet: The queue quiet has 2 jobs, and all processes that listen are quiet.",
		"danger nobody listens alone: The queue alone has 3 jobs, and nobody listens.",
		"danger overdue retry: The first job of the set retry is overdue by 2m, and nobody puts it into its queue.",
		"danger overdue scheduled: The first job of the set scheduled is overdue by 2h, and nobody puts it into its queue.",
		"warning silent silent: silent is silent: its last beat was 40s ago, with 0 jobs.",
		"warning unresponsive ill: ill has 2 unresponsive jobs: cancelled, and still at work.",
		"warning actor ill: In ill the actor default/fetcher is restarting. The last failure: default/processor-1: panic: boom.",
		"warning actor ill: In ill the actor poller is crashed. The last failure: default/processor-1: panic: boom.",
		"warning down ill: In ill the capsule default has 2 processors down. The last failure: default/processor-1: panic: boom.",
		"warning log mute: The log of mute is blocked: 7 lines dropped.",
		"warning latency slow: The oldest job of the queue slow has waited for 5m.",
		"warning paused paused: The queue paused is paused, and nobody listens: 1 job.",
		"note restarts ill: ill has had 3 restarts within a minute. The last failure: default/processor-1: panic: boom.",
	}
	told := func(all []Problem) (lines []string) {
		for _, p := range all {
			lines = append(lines, fmt.Sprintf("%s %s %s: %s", p.Severity, p.Code, p.Process+p.Queue+p.Set, p.Text))
		}
		return lines
	}
	got := told(Worst(Wrong(processes, queues, map[string]time.Duration{"retry": 2 * time.Minute, "scheduled": 2 * time.Hour})))
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := told(Wrong(processes[:2], queues[:2], map[string]time.Duration{"retry": time.Second})); len(got) != 0 {
		t.Errorf("nothing is wrong: %q", got)
	}
	if got := told(Wrong(nil, nil, nil)); fmt.Sprint(got) != "[warning nobody : No process runs.]" {
		t.Errorf("no process: %q", got)
	}
}

func TestOverdue(t *testing.T) {
	rdb, _ := redistest.New(t)
	f, now := New(rdb, nil), time.Now()
	if all, err := f.Overdue(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("empty sets: %v, %v", all, err)
	}
	rdb.ZAdd(t.Context(), "retry", redis.Z{Score: float64(now.Unix() - 90), Member: "a"}, redis.Z{Score: float64(now.Unix() + 90), Member: "b"})
	rdb.ZAdd(t.Context(), "schedule", redis.Z{Score: float64(now.Unix() + 90), Member: "c"})
	if all, err := f.Overdue(t.Context()); err != nil || len(all) != 1 || all["retry"] < 90*time.Second || all["retry"] > 10*time.Minute {
		t.Errorf("%v, %v", all, err)
	}
}

// A silent process does not listen, and neither does a quiet one.
func TestListeners(t *testing.T) {
	var processes []Process
	for _, phase := range []string{Running, Quiet, Stopping, Silent, Gone} {
		processes = append(processes, Process{Phase: phase, Queues: []string{"q"}})
	}
	q := Listened(inspect.QueueSummary{Queue: &inspect.Queue{Name: "q"}}, processes)
	if q.Listeners != 1 || q.Quiet != 2 {
		t.Errorf("%+v", q)
	}
}

// Failures that differ in numbers and ids only have one cause.
func TestCauses(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"x: job Feed 4f1c2a9e8b7d6c5f3e2d1a00: panic: row 7", "y: job Feed abcdefabcdefabcdefabcde9: panic: row 12", true},
		{"x: job Feed deadbeef-dead-beef-dead-beefdeadbeef: no slot", "x: job Feed 12345678-1234-1234-1234-123456789012: no slot", true},
		{"x: job Feed 4f1c2a9e8b7d6c5f3e2d1a00: no slot", "x: job Mail 4f1c2a9e8b7d6c5f3e2d1a00: no slot", false},
		{"x: no slot", "x: no plot", false},
	} {
		if a, b := causeOf(c.a), causeOf(c.b); (a == b) != c.same {
			t.Errorf("%q and %q: the same %t, expected %t", a, b, a == b, c.same)
		}
	}
}

// Processes that restart for the same cause are one problem, which names the release if it is only of that one.
func TestAStormIsToldOnce(t *testing.T) {
	process := func(id, version string, restarts int) Process {
		return Process{Identity: id, Version: version, Phase: Running, Beat: time.Now(), Pulse: &beat.Pulse{
			Recent: restarts, Failure: "default/processor-" + id + ": pq: no slot 7", Capsules: []beat.PulseCapsule{{Name: "default", Down: min(restarts, 1)}},
		}}
	}
	for name, c := range map[string]struct {
		all  []Process
		want string
	}{
		"only the new release":      {[]Process{process("1", "2", 9), process("2", "2", 8), process("3", "1", 0)}, "The same failure in 2 of 3 processes, all those of v2 and no other: 17 restarts"},
		"also one of the other":     {[]Process{process("1", "2", 9), process("2", "1", 8), process("3", "1", 0)}, "The same failure in 2 of 3 processes: 17 restarts"},
		"not all of the release":    {[]Process{process("1", "2", 9), process("2", "2", 8), process("3", "2", 0), process("4", "1", 0)}, "The same failure in 2 of 4 processes: 17 restarts"},
		"there is only one release": {[]Process{process("1", "2", 9), process("2", "2", 8)}, "The same failure in 2 of 2 processes: 17 restarts"},
	} {
		all := Wrong(c.all, nil, nil)
		if len(all) != 1 || all[0].Code != "storm" || !strings.HasPrefix(all[0].Text, c.want) {
			t.Errorf("%s: %+v, expected %s", name, all, c.want)
		}
	}
}
