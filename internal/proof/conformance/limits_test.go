package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// Two Sidekiq servers of Ruby and two daemons run the jobs of one class under one limit, on the keys of sidekiq-throttled:
// never more of them at once than it allows, each once, and both sides get their part.
func TestLimitsMixedLoadOnTheGemsKeys(t *testing.T) {
	s := newSite(t)
	needRuby(t)
	const jobs, limit, key = 200, 3, "throttled:Shared:concurrency.v2"
	ctx := t.Context()
	for range 2 {
		procs.Sidekiq(t, s.url, "testdata/throttled.rb", "throttled.rb: started", "-c", "5")
	}
	var r troupe.Registry
	troupe.HandleClass(&r, "Shared", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		var atOnce *redis.IntCmd
		if _, err := s.rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.SAdd(ctx, "running", p.JID())
			atOnce = pipe.SCard(ctx, "running")
			return nil
		}); err != nil {
			return err
		}
		defer s.rdb.SRem(context.Background(), "running", p.JID())
		time.Sleep(20 * time.Millisecond) // what the job takes, as in Ruby
		return s.rdb.RPush(ctx, "runs", fmt.Sprint("go ", p.JID(), " ", atOnce.Val())).Err()
	}), troupe.Options{Limits: []troupe.Limit{{Name: "Shared", AtOnce: limit, Throttled: true}}})
	for range 2 {
		testkit.Start(t, actors.Config{Redis: s.rdb, Registry: &r, Concurrency: 5})
	}
	pushMany(t, s.rdb, "Shared", jobs)
	for done := int64(-1); done < jobs; { // as long as there are more and more
		before := done
		testkit.Await(t, fmt.Sprintf("more runs than %d", before), func() bool {
			done = s.rdb.LLen(ctx, "runs").Val()
			return done > before
		})
	}
	testkit.Await(t, "all slots are free", func() bool { return s.rdb.ZCard(ctx, key).Val() == 0 })
	s.awaitEmpty("default")
	ran, most := map[string]int{}, 0
	sides := map[string]int{}
	for _, line := range s.rdb.LRange(ctx, "runs", 0, -1).Val() {
		var side, jid string
		var atOnce int
		_, err := fmt.Sscan(line, &side, &jid, &atOnce)
		harness.OK(t, err)
		ran[jid]++
		sides[side]++
		most = max(most, atOnce)
	}
	harness.Equal(t, "jobs that ran", len(ran), jobs)
	harness.Equal(t, "runs", sides["go"]+sides["ruby"], jobs)
	harness.Equal(t, "most at once", most, limit)
	refused := s.rdb.Get(ctx, "ruby:refused").Val()
	t.Logf("%v; Ruby was refused %s times", sides, refused)
	if sides["go"] == 0 || sides["ruby"] == 0 || refused == "" {
		t.Errorf("%v ran, Ruby was refused %q times: nothing was shared", sides, refused)
	}
	harness.Equal(t, "held", len(s.rdb.Keys(ctx, "troupe:held*").Val()), 0)
}

// A process ends between any two steps of limits. Another one runs what it held, in order, and none of its jobs is lost; those
// that it had in hand come when its lease is over.
func TestLimitsAKillBetweenTwoSteps(t *testing.T) {
	const jobs, steps = 20, 16
	most := 0
	for n := range steps {
		t.Run(fmt.Sprintf("before step %d", n+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				network := chaos.NewProxy(t, mem.Options())
				killed := network.Add(chaos.Fault{
					Where: func(words []string) bool {
						return strings.EqualFold(words[0], "evalsha") && slices.Contains(words, "troupe:")
					},
					Skip: n, Times: 1, Do: chaos.Effect{Call: network.Kill},
				})
				var r troupe.Registry
				var order []string
				troupe.HandleClass(&r, "C", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
					order = append(order, p.JID())
					time.Sleep(10 * time.Millisecond)
					return nil
				}), troupe.Options{Limits: []troupe.Limit{{Name: "one", AtOnce: 1}}})
				for i := range jobs {
					harness.Must(client.New(mem.Client).PushClass(t.Context(), "C", []any{i}))(t)
					time.Sleep(time.Millisecond)
				}
				testkit.Start(t, actors.Config{Redis: network.Client(), Registry: &r, Concurrency: 4})
				time.Sleep(time.Second)
				harness.Equal(t, "kills", killed.Hits(), 1)
				var held []string
				for _, member := range mem.Client.ZRange(t.Context(), "troupe:held:one", 0, -1).Val() {
					h, _ := job.ParseHeld(member)
					held = append(held, h.JID)
				}
				most = max(most, len(held))
				before := len(order)
				k := testkit.Start(t, actors.Config{Redis: mem.Client, Registry: &r, Concurrency: 4})
				time.Sleep(2 * time.Minute)
				k.Stop()
				harness.Equal(t, "jobs left", mem.Client.Exists(t.Context(), "queue:default", "troupe:held", "troupe:held:one", "troupe:slots:one").Val(), 0)
				runs, ran := map[string]int{}, []string{}
				for i, jid := range order {
					if runs[jid]++; i >= before && slices.Contains(held, jid) {
						ran = append(ran, jid)
					}
				}
				harness.EqualList(t, "runs of what was held", ran, held)
				harness.Equal(t, "jobs that ran", len(runs), jobs)
				if len(order) > jobs+1 { // the one that was running
					t.Errorf("%d runs of %d jobs", len(order), jobs)
				}
			})
		})
	}
	if most < jobs/4 {
		t.Errorf("at most %d jobs were held at a kill", most)
	}
}
