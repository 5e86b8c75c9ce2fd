package fetch

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

// rides sends a ride of f in a MULTI and tells what it has seen.
func rides(t *testing.T, f *reliable) (Seen, error) {
	t.Helper()
	var end func() (Seen, error)
	_, err := f.rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		if end = f.Ride(t.Context(), p); end == nil {
			t.Fatal("it cannot ride")
		}
		return nil
	})
	seen, ended := end()
	if err != nil && ended == nil {
		t.Errorf("the pipeline ended with %v, the ride with %v", err, ended)
	}
	return seen, ended
}

// A ride renews the lease, and comes by what a rescuer would look for.
func TestARideRenewsAndSees(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a", "b"}))
	if err := f.Renew(t.Context()); err != nil { // the script is known from now on
		t.Fatal(err)
	}
	var now float64
	for range 2 { // the first is a script, the second is not
		rdb.PExpire(t.Context(), f.cur.lease, 20*time.Second)
		rdb.ZAdd(t.Context(), keys.Leases, redis.Z{Score: 9e15, Member: f.cur.id}) // of its own time, not later
		if seen, err := rides(t, f); err != nil || seen != (Seen{}) {
			t.Errorf("seen %+v, %v", seen, err)
		}
		if left := rdb.PTTL(t.Context(), f.cur.lease).Val(); left < 30*time.Second {
			t.Errorf("the lease lives for %v", left)
		}
		now = float64(rdb.Time(t.Context()).Val().UnixMilli())
		if at := rdb.ZScore(t.Context(), keys.Leases, f.cur.id).Val(); at < now || at > now+61_000 {
			t.Errorf("in the index %.0f, now is %.0f", at, now)
		}
	}
	rdb.ZAdd(t.Context(), keys.Leases, redis.Z{Score: now + 30_000, Member: "lives"})
	if seen, err := rides(t, f); err != nil || seen != (Seen{}) {
		t.Errorf("beside one who lives: seen %+v, %v", seen, err)
	}
	rdb.ZAdd(t.Context(), keys.Leases, redis.Z{Score: now - 1, Member: "is dead"})
	if seen, err := rides(t, f); err != nil || seen != (Seen{Expired: true}) {
		t.Errorf("beside a dead one: seen %+v, %v", seen, err)
	}
	rdb.LPush(t.Context(), keys.Queue(keys.Suspects("b")), "x")
	if seen, err := rides(t, f); err != nil || seen != (Seen{Expired: true, Suspects: true}) {
		t.Errorf("with a suspect: seen %+v, %v", seen, err)
	}
}

// Where a ride is refused, Renew finds out why; and it leaves no place at the
// gate behind, whatever comes of it.
func TestARideThatIsRefused(t *testing.T) {
	rdb, _ := redistest.New(t)
	server := redistest.Start(t) // its scripts are to be forgotten
	own := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = own.Close() })
	f := mustOpen(t, testEnv(own, Strict{"a"}))
	for range 2 * maxCalls {
		own.ScriptFlush(t.Context())
		if _, err := rides(t, f); err != nil {
			t.Fatalf("without the script: %v", err)
		}
	}

	for _, before := range []int{0, 1} { // the first ride is a script, the others are not
		f = mustOpen(t, testEnv(rdb, Strict{"a"}))
		if err := f.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range before {
			if _, err := rides(t, f); err != nil {
				t.Fatal(err)
			}
		}
		expire(t, rdb, f.cur.id)
		if _, err := rides(t, f); !redis.HasErrorPrefix(err, "FENCED") {
			t.Errorf("after its lease: %v", err)
		}
		if n := rdb.Exists(t.Context(), f.cur.lease).Val(); n != 0 {
			t.Error("it has brought its lease back")
		}
		if err := f.Renew(t.Context()); err != nil { // nobody had come by
			t.Errorf("renew: %v", err)
		}
		expire(t, rdb, f.cur.id)
		mustRescue(t, newRescuer(t, rdb).Rescue)
		if _, err := rides(t, f); !redis.HasErrorPrefix(err, "FENCED") {
			t.Errorf("after a rescue: %v", err)
		}
		if err := rdb.ZScore(t.Context(), keys.Leases, f.cur.id).Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("it is in the index again: %v", err)
		}
		if err := f.Renew(t.Context()); !errors.Is(err, ErrFenced) {
			t.Errorf("renew after a rescue: %v", err)
		}
	}
}

// What plain commands cannot mend is left to Renew: an index that lacks the
// lease, and a server whose clock is not where it was.
func TestARideLeavesToRenewWhatItCannotMend(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	if _, err := rides(t, f); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(){
		"not in the index":     func() { rdb.ZRem(t.Context(), keys.Leases, f.cur.id) },
		"a clock that was set": func() { f.clock.redis = f.clock.redis.Add(-time.Hour) },
		"not in the registry":  func() { rdb.HDel(t.Context(), keys.Procs, f.cur.id) },
	} {
		spoil()
		if _, err := rides(t, f); !redis.HasErrorPrefix(err, "") {
			t.Errorf("%s: %v, expected to be refused", what, err)
		}
		if err := f.Renew(t.Context()); err != nil {
			t.Errorf("%s: renew: %v", what, err)
		}
		now := float64(rdb.Time(t.Context()).Val().UnixMilli())
		if at := rdb.ZScore(t.Context(), keys.Leases, f.cur.id).Val(); at < now+50_000 || at > now+70_000 {
			t.Errorf("%s: in the index %.0f, now is %.0f", what, at, now)
		}
		if _, err := rides(t, f); err != nil {
			t.Errorf("%s: the next one: %v", what, err)
		}
	}
}

// Who has something to settle first, or is gone, adds nothing.
func TestWhoCannotRide(t *testing.T) {
	rdb, _ := redistest.New(t)
	env := testEnv(rdb, Strict{"a"})
	made, err := NewReliable(env)
	if err != nil {
		t.Fatal(err)
	}
	cannot := func(what string, f *reliable) {
		t.Helper()
		p := rdb.Pipeline()
		if f.Ride(t.Context(), p) != nil || p.Len() != 0 {
			t.Errorf("%s: it rides", what)
		}
		if n := len(f.gate.places); n != 0 {
			t.Errorf("%s: %d places at the gate are taken", what, n)
		}
	}
	cannot("before it was opened", made.(*reliable))
	f := mustOpen(t, env)
	f.doubt = true
	cannot("in doubt", f)
	if err := f.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.gate.enterAlone(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := rdb.Pipeline()
	if f.Ride(t.Context(), p) != nil || p.Len() != 0 {
		t.Error("it rides during a resume")
	}
	f.gate.leaveAlone()
	if _, err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	cannot("closed", f)
}
