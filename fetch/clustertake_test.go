package fetch

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

// The script and the fetcher number the units of a call alike, up to the last.
func TestClusterTakesAsManyAsACallMay(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	f := member(t, rdb, "h:2:bb", "a")
	jobs := make([]any, maxTake+3)
	for i, job := range upTo(len(jobs)) {
		jobs[i] = job
	}
	if err := rdb.LPush(t.Context(), keys.Queue("a"), jobs...).Err(); err != nil {
		t.Fatal(err)
	}
	units := mustTake(t, f, 1<<40)
	if !slices.Equal(payloads(units), upTo(maxTake)) {
		t.Errorf("took %d units, expected the oldest %d", len(units), maxTake)
	}
	wip := f.cur.places[0][1]
	held := rdb.HGetAll(t.Context(), wip).Val()
	for _, u := range units {
		if held[u.Receipt] != string(u.Payload) {
			t.Fatalf("receipt %s stands for %q, expected %q", u.Receipt, held[u.Receipt], u.Payload)
		}
	}
	mustTake(t, f, 0, units...)
	if left := rdb.HLen(t.Context(), wip).Val(); left > 1 { // its mark
		t.Errorf("%d fields are left after all was acked", left)
	}
}

// What goes back because its queue was paused is asked for when the reply is lost:
// what has gone back is not handed out as well.
func TestClusterGivesBackOnceWhatWasPaused(t *testing.T) {
	for name, applied := range map[string]bool{"the reply is lost": true, "the request is lost": false} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.NewCluster(t)
			ctx := t.Context()
			f := member(t, rdb, "h:2:bb", "a", "b")
			rdb.LPush(ctx, keys.Queue("a"), "a0")
			if _, err := f.Settle(ctx, []Move{{Unit: mustTake(t, f, 1)[0], To: ToQueue}}); err != nil { // so that Redis knows the script
				t.Fatal(err)
			}
			rdb.LPush(ctx, keys.Queue("a"), "a1")
			rdb.LPush(ctx, keys.Queue("b"), "b0")
			rdb.SAdd(ctx, keys.Paused, "a")
			rdb.AddHook(&lostPipeline{script: clusterSettle.hash, applied: applied})
			if units, err := f.Take(ctx, 3, nil); err == nil {
				t.Fatalf("took %q", payloads(units))
			}
			rdb.SRem(ctx, keys.Paused, "a")
			units := mustTake(t, f, 3)
			got := payloads(units)
			slices.Sort(got)
			if !slices.Equal(got, []string{"a0", "a1", "b0"}) {
				t.Errorf("took %q", got)
			}
			if left := popped(t, rdb, keys.Queue("a")); len(left) > 0 {
				t.Errorf("in the queue as well: %q", left)
			}
			mustTake(t, f, 0, units...)
		})
	}
}

// lostPipeline breaks the first pipeline that runs a script, before or after it is carried out.
type lostPipeline struct {
	script        string
	applied, done bool
}

func (l *lostPipeline) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (l *lostPipeline) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (l *lostPipeline) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if l.done || cmds[0].Args()[1] != l.script {
			return next(ctx, cmds)
		}
		l.done = true
		if l.applied {
			_ = next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(io.EOF)
		}
		return io.EOF
	}
}
