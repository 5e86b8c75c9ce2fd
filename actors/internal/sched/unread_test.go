package sched_test

import (
	"os"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// The script that takes a member away which the link does not carry knows it by its length. If another process has been
// there first, the member that is the first now is a job that can be read: it stays.
func TestUnreadLeavesAMemberOfAnotherLength(t *testing.T) {
	rdb, _ := redistest.New(t)
	source := string(harness.Must(os.ReadFile("unread.lua"))(t))
	add(t, rdb, keys.Schedule, time.Now().Add(-time.Minute), "small")
	for _, c := range []struct{ size, moved int64 }{{900_000, 0}, {int64(len("small")), 1}} {
		_, err := rdb.Eval(t.Context(), source, []string{keys.Schedule, keys.Moving(keys.Schedule)}, "-inf", 0, c.size, time.Hour.Milliseconds()).Result()
		harness.OK(t, err)
		harness.Equal(t, "taken away", rdb.ZCard(t.Context(), keys.Moving(keys.Schedule)).Val(), c.moved)
		harness.Equal(t, "left", rdb.ZCard(t.Context(), keys.Schedule).Val(), 1-c.moved)
	}
}
