package fetch

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func own(c *rescue.Config) { c.Identity = "h:2:bb" }

// Without a tombstone the fetcher may live: then nobody takes its units.
func TestAScriptOfARescueWantsATombstone(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	rdb.LPush(t.Context(), "queue:a", "0")
	mustTake(t, f, 1)
	p := f.cur.indexes[0]
	list := p.slot.List(f.cur.id, "1.1")
	for name, err := range map[string]error{
		"putback": script.Named("rescue.putback").Run(t.Context(), rdb, []string{p.key, list, "queue:a"}, "1.1", 100, "").Err(),
		"reroute": script.Named("rescue.reroute").Run(t.Context(), rdb, []string{p.key, list, "schedule", "dead", "queues", "x", "y", "queue:a"},
			1, 1, "0", 0, 8, "", "", "", "", "", "").Err(),
		"finish": script.Named("rescue.finish").Run(t.Context(), rdb, []string{p.key, p.registry}, f.cur.id, 1000).Err(),
	} {
		if !redis.HasErrorPrefix(err, "NOTFENCED") {
			t.Errorf("%s: %v, expected NOTFENCED", name, err)
		}
	}
	if err := script.Named("rescue.fence").Run(t.Context(), rdb, []string{p.key}, "7", 1).Err(); !redis.HasErrorPrefix(err, "ALIVE") {
		t.Errorf("fence of another generation: %v, expected ALIVE", err)
	}
	if got := inProgress(t, rdb, p); !slices.Equal(got, []string{"0"}) || rdb.LLen(t.Context(), "queue:a").Val() != 0 {
		t.Errorf("in progress: %q", got)
	}
}

// A process that wakes from a pause does not rob itself; what another has begun it learns.
func TestRescuePassesByItsOwn(t *testing.T) {
	rdb, _ := redistest.New(t)
	r := testRescuer(t, rdb, own)
	f := die(t, rdb, "h:2:bb", 2, "a")
	die(t, rdb, "h:2:bbb", 2, "b")
	if done := mustRescue(t, r.Rescue); done.Units != 2 || len(queued(t, rdb, "a")) != 0 {
		t.Errorf("rescued %+v, expected the other process alone", done)
	}
	if err := f.Renew(t.Context()); err != nil {
		t.Errorf("renew: %v", err)
	}
	// another rescuer fences it and dies
	first := f.cur.id
	expire(t, rdb, first)
	harness.OK(t, script.Named("rescue.fence").Run(t.Context(), rdb, []string{f.cur.indexes[0].key}, "2", 1).Err())
	if done := mustRescue(t, r.Rescue); done.Units != 0 {
		t.Errorf("rescued its own: %+v", done)
	}
	if err := f.Renew(t.Context()); !errors.As(err, new(*FencedError)) {
		t.Fatalf("renew: %v, expected a fence", err)
	}
	harness.OK(t, f.Renew(t.Context()))
	expire(t, rdb, first) // the renewal that met the fence has made the lease again
	if done := mustRescue(t, r.Rescue); done.Units != 2 || done.Details[0].ID != first {
		t.Errorf("rescued %+v, expected the rest of a rescue", done)
	}
}

// An owner that renews a lease which was over is not fenced by a rescuer that had looked
// before: its generation has changed.
func TestALeaseThatIsRenewedBeforeTheFence(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := die(t, rdb, "h:2:bb", 2, "a")
	l := &meanwhile{hash: hashOf("fence"), do: func() {
		if err := f.Renew(t.Context()); err != nil {
			t.Errorf("renew: %v", err)
		}
	}}
	done, err := testRescuer(t, hooked(t, rdb, l)).Rescue(t.Context())
	if err != nil || done.Units != 0 || done.Fetchers != 0 || l.hash != "" {
		t.Errorf("rescued %+v: %v", done, err)
	}
	if err := f.Renew(t.Context()); err != nil {
		t.Errorf("renew: %v", err)
	}
	if got := inProgress(t, rdb, f.cur.indexes[0]); len(got) != 2 {
		t.Errorf("in progress: %q", got)
	}
}

// A process that has given up an id without a rescue rescues it itself: it may be the only
// one. Its id was in use elsewhere, as in a machine that was cloned.
func TestRescueOfItsOwnThatWasGivenUp(t *testing.T) {
	rdb, _ := redistest.New(t)
	env := testEnv(rdb, Strict{"a"})
	env.Identity = "h:2:bb"
	f := mustOpen(t, env)
	fillQueue(t, rdb, "a", 2)
	mustTake(t, f, 2)
	p := f.cur.indexes[0]
	rdb.HSet(t.Context(), p.key, "!", "9 3") // a clone has raised the generation
	if _, err := f.Take(t.Context(), 1, nil); !errors.As(err, new(*FencedError)) {
		t.Fatalf("take: %v, expected a fence", err)
	}
	if units := mustTake(t, f, 1); len(units) != 0 {
		t.Errorf("took %v", units)
	}
	harness.Equal(t, "goes on as", f.cur.id, "h:2:bb#default.2")
	r := testRescuer(t, rdb, own)
	if done := mustRescue(t, r.Rescue); done.Units != 0 {
		t.Errorf("the clone was robbed within its lease: %+v", done)
	}
	expire(t, rdb, p.in.id)
	r.Looked(time.Time{})
	if done := mustRescue(t, r.Rescue); done.Units != 2 {
		t.Errorf("rescued %+v, expected 2 units", done)
	}
	harness.EqualList(t, "queue", queued(t, rdb, "a"), []string{"0", "1"})
	expire(t, rdb, f.cur.id)
	if done := mustRescue(t, r.Rescue); done.Fetchers != 0 {
		t.Errorf("it robbed its own process: %+v", done)
	}
}
