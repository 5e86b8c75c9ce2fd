package fetch

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// moody are queues of somebody else, who panics now and then.
type moody struct {
	Strict
	panics *bool
}

func (m moody) Wants(n int, r *rand.Rand) []Want {
	if *m.panics {
		panic("wants")
	}
	return m.Strict.Wants(n, r)
}

// takeOrPanic takes, and tells of a panic: in the daemon, too, somebody recovers, and the
// next Take comes.
func takeOrPanic(t *testing.T, f Fetcher) (units []Unit, panicked bool) {
	t.Helper()
	defer func() { panicked = recover() != nil }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	units, err := f.Take(ctx, 10, nil)
	harness.Check(t, err)
	return units, false
}

// What others wrote runs in a Take: queues, log writers, hooks of the client. Their panic
// costs neither the units that were taken nor what later calls need.
func TestAPanicInATakeCostsNothing(t *testing.T) {
	type scene struct {
		env    *Env
		panics *bool
		rdb    redis.UniversalClient
	}
	ways := map[string]func(scene){
		"in Wants": func(s scene) { s.env.Queues = moody{Strict{"a", "b"}, s.panics} },
		"in the log, after the script": func(s scene) {
			s.rdb.Set(t.Context(), keys.Queue("b"), "no list", 0) // is reported
			s.env.Logger = zerolog.New(zerolog.NewTestWriter(t)).Hook(zerolog.HookFunc(func(*zerolog.Event, zerolog.Level, string) {
				if *s.panics {
					panic("log")
				}
			}))
		},
		"in a hook of the client, after the script": func(s scene) { s.rdb.AddHook(panicky{s.panics}) },
	}
	for name, way := range ways {
		for kind, factory := range map[string]Factory{"reliable": NewReliable, "basic": NewBasic, "cluster": NewReliable} {
			if kind == "basic" && name == "in a hook of the client, after the script" {
				continue // a reply that is lost on its way loses the jobs in it, as documented
			}
			t.Run(name+" "+kind, func(t *testing.T) {
				panics := false
				var rdb redis.UniversalClient
				if kind == "cluster" {
					rdb, _ = redistest.NewCluster(t)
				} else {
					rdb, _ = redistest.New(t)
				}
				env := testEnv(rdb, Strict{"a", "b"})
				way(scene{&env, &panics, rdb})
				f := harness.Must(factory(env))(t)
				harness.OK(t, f.Open(t.Context()))
				t.Cleanup(func() { _, _ = f.Close(context.Background()) })
				rdb.LPush(t.Context(), keys.Queue("a"), 1, 2, 3, 4, 5)
				panics = true
				var units []Unit
				for i := range 5 {
					got, panicked := takeOrPanic(t, f)
					if units = append(units, got...); i == 0 && !panicked {
						t.Error("no panic")
					}
				}
				panics = false
				for range 3 {
					units = append(units, mustTake(t, f, 10)...)
				}
				got := payloads(units)
				slices.Sort(got)
				harness.EqualList(t, "took, want each job once", got, []string{"1", "2", "3", "4", "5"})
				mustTake(t, f, 0, units...)
				if r, ok := f.(*fetcher); ok && len(inProgress(t, rdb, r.cur.indexes[0])) > 0 {
					t.Error("something is in progress")
				}
			})
		}
	}
}

// panicky panics after a call of a script, whose reply is lost thereby.
type panicky struct{ panics *bool }

func (panicky) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p panicky) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return p.after(cmds[0], next(ctx, cmds))
	}
}

func (p panicky) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return p.after(cmd, next(ctx, cmd)) }
}

func (p panicky) after(cmd redis.Cmder, err error) error {
	if *p.panics && strings.HasPrefix(cmd.Name(), "eval") && err == nil {
		*p.panics = false // what follows goes through
		panic("hook")
	}
	return err
}
