package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// The lock of a unique job follows it from the process that is killed with it to the one that runs it again, and is free
// after its ack.
func TestTheLockOfAKilledJob(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	spec := workerSpec{Redis: url, Records: rec.url, Lease: 2 * time.Second}
	push := func() (string, error) {
		return client.New(rdb).PushClass(t.Context(), "FanOnce", []any{}, client.Unique(troupe.Unique{For: time.Hour}))
	}
	dies := startWorker(t, spec)
	jid := harness.Must(push())(t)
	rec.await(soon, 1, "start", jid)
	dies.Kill()
	var dup *client.DuplicateError
	if _, err := push(); !errors.As(err, &dup) || dup.Holder != jid {
		t.Errorf("a push after the kill: %v, want a duplicate of %s", err, jid)
	}
	lives := startWorker(t, spec)
	rec.await(soon, 1, "end", jid)
	lives.Stop(soon)
	harness.Equal(t, "locks", len(rdb.Keys(t.Context(), "troupe:lock:*").Val()), 0)
	rdb.Del(t.Context(), "queue:low", "troupe:conflicts")
	clean(t, rdb)
}
