package explain_test

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// scans counts the searches through whole sets.
type scans struct{ n int }

func (*scans) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*scans) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return next
}

func (s *scans) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if reads(cmd, "scan") {
				s.n++
			}
		}
		return next(ctx, cmds)
	}
}

// reads tells whether a command is the script that reads jobs at one of these places.
func reads(cmd redis.Cmder, places ...any) bool {
	const where = 4 // of the arguments
	args := cmd.Args()
	return cmd.Name() == "evalsha" && len(args) > where && slices.Contains(places, args[where])
}

// A job is found where a link has seen it without a search, and elsewhere if it has gone on.
func TestNear(t *testing.T) {
	rdb, _ := redistest.New(t)
	rdb.ZAdd(t.Context(), "dead", redis.Z{Score: 7.5, Member: `{"class":"A","args":[],"jid":"a"}`}, redis.Z{Score: 7.5, Member: `{"class":"A","args":[],"jid":"b"}`})
	var s scans
	rdb.AddHook(&s)
	for _, c := range []struct {
		near   explain.Near
		search bool
	}{{explain.Near{Set: "dead", Score: 7.5}, false}, {explain.Near{Set: "dead", Score: 8}, true}, {explain.Near{Set: "retry", Score: 7.5}, true}, {explain.Near{Set: "none", Score: 7.5}, true}} {
		s.n = 0
		x, err := explain.Job(t.Context(), rdb, "b", nil, c.near)
		if err != nil || x.Place != "dead" || x.Entry == nil || x.Entry.JID != "b" || (s.n > 0) != c.search {
			t.Errorf("%+v: %+v, %v, %d scans", c.near, x, err, s.n)
		}
	}
}
