package contender

import (
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

// The bytes that the driver pushes are those of a client, of the size that is told.
func TestBytesAreAJob(t *testing.T) {
	task := Task{Index: 123_456, At: 98_765_432_100, Sleep: 7, Pad: "x"}
	raw := Bytes(task, job.NewID(), time.Unix(1_795_225_158, 789_289_000))
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if p.Class() != class || p.Queue() != "default" || len(p.JID()) != 24 {
		t.Errorf("class %q, queue %q, jid %q", p.Class(), p.Queue(), p.JID())
	}
	if at, ok := p.Time("enqueued_at"); !ok || at.Unix() != 1_795_225_158 {
		t.Errorf("enqueued_at %v, %v", at, ok)
	}
	var got Task
	if err := troupe.DecodeArgs(p.Args(), &got); err != nil || got != task {
		t.Errorf("arguments %+v, %v, expected %+v", got, err, task)
	}
	task.Pad = "" // which a glance does not look at
	if got := glance(raw); got != task {
		t.Errorf("at a glance %+v, expected %+v", got, task)
	}
	if plain := len(Bytes(Task{Index: 123_456}, job.NewID(), time.Now())); plain < 140 || plain > 180 {
		t.Errorf("%d bytes, expected about 150", plain)
	}
}

func TestALoadIsSharedOutWhole(t *testing.T) {
	l := Load{Jobs: 1000, Queues: []string{"a", "b", "c"}}
	seen := map[int64]bool{}
	for i := range l.Queues {
		for task := range l.tasks(l.share(i)) {
			seen[task.Index] = true
		}
	}
	if len(seen) != 1000 || !seen[0] || !seen[999] {
		t.Errorf("%d different jobs, expected 0 to 999", len(seen))
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		if seen[c.Name] {
			t.Errorf("two contenders %q", c.Name)
		}
		seen[c.Name] = true
		if got, err := Find(c.Name); err != nil || got.About != c.About {
			t.Errorf("Find(%q): %v, %v", c.Name, got.About, err)
		}
	}
	if _, err := Find("nobody"); err == nil {
		t.Error("found nobody")
	}
}
