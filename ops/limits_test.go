package ops

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Limits have their numbers of all their keys, and no key is told.
func TestLimitsOfAFleet(t *testing.T) {
	rdb, _ := redistest.New(t)
	now := time.Now().Unix()
	do(t, rdb,
		[]any{"hset", "troupe:limits", "account", "1", "api", "20 0.01", "night", "0 pinned 5", "idle", "3", "hooks", "1000 0 breaker 3 60", "bank", "5 breaker 0 60"},
		[]any{"hset", "troupe:rest:hooks:secret1", "ends", now + 60}, []any{"hset", "troupe:rest:hooks:secret2", "ends", now + 600}, []any{"hset", "troupe:rest:hooks:secret3", "failures", 2},
		[]any{"zadd", "troupe:held", now, "account:secret7", now, "account:secret8", now, "night", now, "gone"},
		[]any{"zadd", "troupe:held:account:secret7", now - 100, "1.1.1 [\"queue:a\",\"a\",\"x\",\"account:secret7\"]\n{}", now - 50, "2"},
		[]any{"zadd", "troupe:held:account:secret8", now - 200, "1"},
		[]any{"zadd", "troupe:held:night", now - 10, "1"},
		[]any{"zadd", "troupe:held:gone", now - 10, "1"},
		[]any{"zadd", "troupe:slots:account:secret7", now + 40, "j1"},
		[]any{"zadd", "troupe:slots:account:secret9", now + 40, "j2", now - 1, "ended"},
	)
	text := harness.Must(fleetOf(t, rdb))(t)
	got := series(text)
	for name, want := range map[string]string{
		`limit_held{limit="account"}`: "3", `limit_slots{limit="account"}`: "2", `limit_open{limit="account"}`: "1",
		`limit_held{limit="api"}`: "0", `limit_open{limit="api"}`: "1", `limit_oldest_held_seconds{limit="api"}`: "0",
		`limit_held{limit="night"}`: "1", `limit_open{limit="night"}`: "0", `limit_held{limit="gone"}`: "1", `limit_open{limit="gone"}`: "0",
		`limit_resting{limit="hooks"}`: "2", `limit_resting{limit="bank"}`: "0", `limit_resting{limit="account"}`: "0",
		`limit_held{limit="idle"}`: "0", `limit_slots{limit="idle"}`: "0",
	} {
		if got[prefix+name] != want {
			t.Errorf("%s is %q, want %s", name, got[prefix+name], want)
		}
	}
	if age := got[prefix+`limit_oldest_held_seconds{limit="account"}`]; !strings.HasPrefix(age, "20") {
		t.Errorf("the oldest is %s s old, expected some 200", age)
	}
	if strings.Contains(text, "secret") {
		t.Errorf("a key is told: %s", text)
	}
	promtool(t, "", text, "check", "metrics")
}

// Batches that have not ended are counted by state, and no ID is told.
func TestBatchesOfAFleet(t *testing.T) {
	rdb, _ := redistest.New(t)
	now := time.Now().Unix()
	for id, fields := range map[string][]any{
		"b1": {"pending", 3, "unrun", 2, "closed", 1}, "b2": {"pending", 4, "unrun", 0, "closed", 1}, "b3": {"pending", 5, "unrun", 5},
		"ended": {"pending", 0, "unrun", 0, "closed", 1, "success", now}, "cancelled": {"pending", 7, "unrun", 7, "closed", 1, "cancelled", now},
	} {
		do(t, rdb, append([]any{"hset", "troupe:batch:" + id, "total", 9}, fields...), []any{"zadd", "troupe:batches", now + 60, id})
	}
	text := harness.Must(fleetOf(t, rdb))(t)
	got := series(text)
	for name, want := range map[string]string{`batches{state="open"}`: "1", `batches{state="running"}`: "1", `batches{state="complete"}`: "1", "batch_pending_jobs": "12"} {
		harness.Equal(t, name, got[prefix+name], want)
	}
	if strings.Contains(text, "b1") || strings.Contains(text, "cancelled") {
		t.Errorf("a batch is told: %s", text)
	}
}

// Names of limits are bounded, and what many keys hold is counted whole.
func TestLimitsOfAFleetAreBounded(t *testing.T) {
	rdb, _ := redistest.New(t)
	for i := range 120 {
		do(t, rdb, []any{"hset", "troupe:limits", fmt.Sprint("l", i), 1}, []any{"zadd", "troupe:held", 1, fmt.Sprint("l", i)}, []any{"zadd", fmt.Sprint("troupe:held:l", i), 1, "x"})
	}
	do(t, rdb, []any{"hset", "troupe:limits", "_other", 0}, []any{"eval", `for i = 1, 1500 do redis.call("ZADD", "troupe:held", 2, "l7:" .. i) redis.call("ZADD", "troupe:held:l7:" .. i, 1, "x") end return 1`, 0})
	limits, held := 0, 0
	text := harness.Must(fleetOf(t, rdb))(t)
	got := series(text)
	for name, v := range got {
		if strings.HasPrefix(name, limitHeld.name+"{") {
			var n int
			_, err := fmt.Sscan(v, &n)
			harness.OK(t, err)
			limits, held = limits+1, held+n
		}
	}
	harness.Equal(t, "limits", limits, maxNamed+1)
	harness.Equal(t, "held", held, 1620)
	harness.Equal(t, "of one", got[prefix+`limit_held{limit="l7"}`], "1501")
	harness.Equal(t, "the others are not all open", got[prefix+`limit_open{limit="_other"}`], "0")
}
