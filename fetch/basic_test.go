package fetch

import (
	"context"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What a Wait of the basic fetcher has popped is not lost by a Take that fails.
func TestBasicTakeThatFailsKeepsWhatAWaitHasPopped(t *testing.T) {
	rdb, _ := redistest.New(t)
	l := &lostReply{}
	f, err := NewBasic(testEnv(hooked(t, rdb, l), Strict{"a"}))
	if err != nil {
		t.Fatal(err)
	}
	known := func() { mustTake(t, f, 0); mustTake(t, f, 1) } // so that Redis knows the script
	known()
	time.AfterFunc(30*time.Millisecond, func() { rdb.LPush(context.Background(), "queue:a", "0", "1") })
	harness.Await(t, "one is popped", func() bool {
		_ = f.Wait(t.Context(), time.Second)
		return rdb.LLen(t.Context(), "queue:a").Val() == 1
	})
	l.arm(hashOf("pop"), false)
	if units, err := f.Take(t.Context(), 5, nil); err == nil {
		t.Fatalf("took %v, expected an error", units)
	}
	harness.EqualList(t, "then took", payloads(mustTake(t, f, 5)), []string{"0", "1"})
	if left, err := f.Close(t.Context()); left != 0 || err != nil {
		t.Errorf("close: %d, %v", left, err)
	}
}
