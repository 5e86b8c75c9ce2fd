package explain_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

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

// reads reports whether a command is the script that reads jobs at one of these places.
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
	}{{explain.Near{Place: "dead", Score: 7.5}, false}, {explain.Near{Place: "dead", Score: 8}, true}, {explain.Near{Place: "retry", Score: 7.5}, true}, {explain.Near{Place: "none", Score: 7.5}, true}} {
		s.n = 0
		x, err := explain.Job(t.Context(), rdb, "b", nil, c.near)
		if err != nil || x.Place != "dead" || x.Entry == nil || x.Entry.JID != "b" || (s.n > 0) != c.search {
			t.Errorf("%+v: %+v, %v, %d scans", c.near, x, err, s.n)
		}
	}
}

// Where the time is bounded not all of a large set is searched, and the rest is.
func TestThereIsNoTime(t *testing.T) {
	rdb, _ := redistest.New(t)
	rdb.LPush(t.Context(), "queue:q", `{"class":"A","args":[],"jid":"b"}`)
	rdb.SAdd(t.Context(), "queues", "q")
	rdb.AddHook(&endless{})
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	if x, err := explain.Job(ctx, rdb, "b", nil); err != nil || x.Place != "queue:q" {
		t.Errorf("%+v, %v", x, err)
	}
	x, err := explain.Job(ctx, rdb, "none", nil)
	if err != nil || x.Place != "" || x.Next != "It is not known." || !strings.Contains(x.Why[0].Text, "not all of dead, for which there was no time") {
		t.Errorf("%+v, %v", x, err)
	}
}

// endless lets searches through the set dead go on until they are ended.
type endless struct{ scans }

func (*endless) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if reads(cmd, "scan") && slices.Contains(cmd.Args(), any("dead")) {
				<-ctx.Done()
				return ctx.Err()
			}
		}
		return next(ctx, cmds)
	}
}
