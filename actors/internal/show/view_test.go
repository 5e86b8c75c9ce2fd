package show

import (
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/tree"
)

func newView(capsules ...Capsule) *View {
	return &View{
		Now: time.Now(), System: supervised.New(zerolog.Nop(), "host:1:a", "launcher", func(event.Event) {}),
		Outage: env.NewOutage(zerolog.Nop(), "launcher/heartbeat"), Capsules: capsules,
		Phase: "running", Running: true, Registered: true, Heart: "launcher/heartbeat", BeatAt: time.Now(), BeatEvery: time.Second,
	}
}

// A queue that two capsules share is one, and those beyond the limit are one that has no name.
func TestQueuesAreAddedUp(t *testing.T) {
	var a, b Capsule
	for i := range maxQueues + 10 {
		a.Queues = append(a.Queues, runs.Queue{Name: fmt.Sprint("q", i), Fetched: 1})
	}
	b.Queues = []runs.Queue{{Name: "q0", Fetched: 5}, {Name: "other", Fetched: 7}}
	all := newView(a, b).Metrics(nil, make([]runs.Totals, 1), NewMoves(new(troupe.Registry)), NewTicks(nil), nil).Queues
	if len(all) != maxQueues || all[0].Queue != "q0" || all[0].Fetched != 6 {
		t.Fatalf("%d queues, the first is %+v", len(all), all[0])
	}
	if last := all[maxQueues-1]; last.Queue != "" || last.Fetched != 11+7 {
		t.Errorf("the last is %+v, want one without a name with 18 jobs", last)
	}
}

// What waits of a capsule is what it holds and does not run, and a run that has lost its
// processor is as old as any other.
func TestACapsuleCountsWhatItHolds(t *testing.T) {
	now := time.Now()
	v := newView(Capsule{
		Name: "default", Busy: 2, Unsettled: map[string]int{"a": 3, "b": 4},
		Working:  map[string]tree.JobRef{"launcher/default/processor-0": {Started: now.Add(-time.Second)}, "launcher/default/processor-1": {}},
		Replaced: []tree.JobRef{{Started: now.Add(-time.Hour)}},
	})
	v.Now = now
	c := v.Metrics(nil, make([]runs.Totals, 1), NewMoves(new(troupe.Registry)), NewTicks(nil), nil).Capsules[0]
	if c.Waiting != 5 || c.OldestRun != time.Hour {
		t.Errorf("%d wait and the oldest run lasts %v, want 5 and an hour", c.Waiting, c.OldestRun)
	}
	h := v.Health()
	harness.Equal(t, "jobs of a", h.Running["a"], 3)
	harness.Equal(t, "busy", h.Busy, 2)
}

// A daemon whose capsules are all quiet is not ready, and a pulse says that it is quiet.
func TestAllCapsulesQuietIsQuiet(t *testing.T) {
	v := newView(Capsule{Name: "a", Quiet: true}, Capsule{Name: "b"})
	harness.Equal(t, "ready", v.Health().Ready.OK(), true)
	harness.Equal(t, "phase", v.Pulse(nil, &Recorder{}).Phase, "running")
	v.Capsules[1].Quiet = true
	if why := v.Health().Ready; len(why) != 1 || why[0].Code != "quiet" {
		t.Errorf("reasons %v", why)
	}
	harness.Equal(t, "phase", v.Pulse(nil, &Recorder{}).Phase, "quiet")
}
