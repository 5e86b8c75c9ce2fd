package job

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

// This file is about held jobs that are let in, and slots of jobs that run.

//go:embed letin.lua
var letInSource string

var letInScript = script.New("job.letin", LetInSource())

// LetInSource is the whole script letin.
func LetInSource() string {
	return `local call, pcall = redis.call, redis.pcall
local function text(reply) return type(reply) == 'table' and reply.err or nil end
` + RulesHead + letInSource
}

// LetIn lets up to most jobs in of the rules that are due, and tells when the next one is; below 0: none holds jobs.
func LetIn(ctx context.Context, rdb redis.UniversalClient, base string, most int) (n int, next time.Duration, err error) {
	return letIn(ctx, rdb, base, most, "due")
}

// Release lets up to most jobs of a rule in for which there is no room, the oldest first. With back they go back to their
// queues without a slot.
func Release(ctx context.Context, rdb redis.UniversalClient, base, rule string, most int, back bool) (int, error) {
	how := "force"
	if back {
		how = "back"
	}
	n, _, err := letIn(ctx, rdb, base, most, how, rule)
	return n, err
}

// ReleaseOne lets one job of a rule in for which there is no room, by its member of the zset; 0 if it is not there any more.
func ReleaseOne(ctx context.Context, rdb redis.UniversalClient, base, rule, member string) (int, error) {
	n, _, err := letIn(ctx, rdb, base, 1, "one", rule, member)
	return n, err
}

// Rest makes a rule rest for d from now on, or ends its rest if d is 0. It returns false if the rule has no breaker, or did not rest.
func Rest(ctx context.Context, rdb redis.UniversalClient, base, rule string, d time.Duration) (bool, error) {
	n, _, err := letIn(ctx, rdb, base, 1, "rest", rule, inSeconds(d))
	return n > 0, err
}

func letIn(ctx context.Context, rdb redis.UniversalClient, base string, most int, how string, rules ...any) (int, time.Duration, error) {
	args := append([]any{base, most, how}, rules...)
	reply, err := letInScript.Run(ctx, rdb, []string{keys.HeldRules(base)}, args...).Int64Slice()
	if err != nil || len(reply) != 2 {
		return 0, 0, fmt.Errorf("let held jobs in: %w", cmp.Or(err, fmt.Errorf("reply %v", reply)))
	}
	return int(reply[0]), time.Duration(reply[1]) * time.Millisecond, nil
}

// slotsFor is how long a key of slots lives without a beat of a job that has one; the slots end before.
const slotsFor = 7 * 24 * time.Hour

// RenewSlots renews the slots of running jobs: they live for life from now on. It returns the rules of each job whose slots are gone. Those
// are not taken again here, since the job may have ended meanwhile.
func RenewSlots(ctx context.Context, rdb redis.UniversalClient, jobs []*Rules, life time.Duration) (gone map[*Rules]*Rules, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("renew the slots of running jobs: %w", err)
	}
	pipe := rdb.Pipeline()
	type slot struct {
		of   *Rules
		i    int
		done *redis.IntCmd
	}
	var all []slot
	kept := map[string]bool{}
	for _, r := range jobs {
		for i, key := range r.Slots {
			if key != "" {
				score := math.Ceil(float64(now.Add(life).UnixMicro()) / 1e6) // see rules.lua
				all = append(all, slot{r, i, pipe.ZAddArgs(ctx, key, redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{{Score: score, Member: cmp.Or(r.As, r.JID)}}})})
				if !kept[key] {
					kept[key] = true
					pipe.PExpire(ctx, key, slotsFor)
				}
			}
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("renew the slots of running jobs: %w", err)
	}
	gone = map[*Rules]*Rules{}
	for _, s := range all {
		if s.done.Val() > 0 {
			continue
		}
		g := gone[s.of]
		if g == nil {
			g = &Rules{Base: s.of.Base, JID: s.of.JID, Age: s.of.Age, Lease: life, Force: true}
			gone[s.of] = g
		}
		g.IDs, g.Slots = append(g.IDs, s.of.IDs[s.i]), append(g.Slots, s.of.Slots[s.i])
	}
	return gone, nil
}
