package fetch

import (
	"fmt"
	"testing"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// A group of settle whose job is only named, and is not there, does not hide the groups behind it.
func TestAJobThatIsAbsentHidesNoOther(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx, id := t.Context(), "h:1:aa#default.1"
	index, list := keys.Slot{}.Index(id), keys.Slot{}.List(id, "1.1")
	for groups := range 20 {
		harness.OK(t, rdb.Del(ctx, index).Err())
		harness.OK(t, rdb.HSet(ctx, index, "!", "1 1").Err())
		args := []any{"1 1", 2}
		for range groups {
			args = append(args, 6, "1.1", "3 "+fmt.Sprintf("%040d", 7), "", "", "", "", "", 1, "", 0)
		}
		reply, err := settleScript.Run(ctx, rdb, []string{index, index, index, index, index, list}, args...).StringSlice()
		if err != nil || len(reply) != 2*groups {
			t.Errorf("%d groups: %q, %v, expected that each is ABSENT", groups, reply, err)
		}
	}
}
