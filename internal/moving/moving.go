// Package moving takes members of a sorted set to other slots of a Redis
// Cluster, where no single step can do it. The mover claims members (out of the
// set, into a second set in the same slot, with a deadline), writes them where
// they belong, and finishes. What a mover that died has claimed goes back into
// the set after the deadline: a member is at every instant in one of the two sets
// until its destination has it, and only a mover that dies between the
// destination and the finish makes a duplicate.
package moving

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/script"
)

// Life is how long a mover has for what it has claimed. Its calls are bounded by
// time-outs of some seconds each.
const Life = time.Minute

//go:embed claim.lua
var claimSource string

//go:embed finish.lua
var finishSource string

//go:embed abandoned.lua
var abandonedSource string

var (
	claimScript     = script.New("moving.claim", claimSource)
	finishScript    = script.New("moving.finish", finishSource)
	abandonedScript = script.New("moving.abandoned", abandonedSource)
)

// finishTimeout bounds the last step, which goes on when the context ends: what was
// written must not stay claimed because a stop begins just then.
const finishTimeout = 3 * time.Second

// Group is members of a set with one destination.
type Group struct {
	Key      string // of the destination: a queue's list, keys.Dead, or "" for none
	Queue    string // name of the queue, if it is one
	Members  []any
	Payloads []any // what is written for each member

	// the answer
	There []bool // for each member, whether it was in the set
	Moved int    // how many were, and are at the destination now
	Fault error  // of the destination, which took nothing
}

// Death is what members need that go to the dead set.
type Death struct {
	Score string
	Trim  limits.Trim
}

// write queues what writes payloads. The error of the command that it returns says
// whether they have arrived.
func (g *Group) write(ctx context.Context, pipe redis.Pipeliner, death Death, payloads []any) redis.Cmder {
	if g.Key != keys.Dead {
		pipe.SAdd(ctx, keys.Queues, g.Queue) // a list for people: the job moves even if that is broken
		return pipe.LPush(ctx, g.Key, payloads...)
	}
	args := []any{"zadd", keys.Dead}
	for _, payload := range payloads {
		args = append(args, death.Score, payload)
	}
	added := pipe.Do(ctx, args...)
	script.Trim(ctx, pipe, keys.Dead, death.Trim)
	return added
}

// Move moves what is still in the set and says in each group what became of it.
// Where no answer came that is not known: the members stay claimed, and the next mover
// takes them on after the deadline. An error is one of the set; the groups hold all the
// same if their There is not nil.
func Move(ctx context.Context, rdb redis.UniversalClient, set string, groups []*Group, death Death) error {
	scores, err := claim(ctx, rdb, set, groups)
	if err != nil {
		return err
	}
	pipe, sent := rdb.Pipeline(), make([]redis.Cmder, len(groups))
	for i, g := range groups {
		g.There = make([]bool, len(g.Members))
		var payloads []any
		for k := range g.Members {
			if g.There[k] = scores[i][k] != ""; g.There[k] && g.Key != "" {
				payloads = append(payloads, g.Payloads[k])
			}
		}
		if len(payloads) > 0 {
			sent[i] = g.write(ctx, pipe, death, payloads)
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx) // the errors are in the commands
	}
	var arrived, refused []any
	for i, g := range groups {
		if sent[i] != nil {
			g.Fault = sent[i].Err()
		}
		for k, raw := range g.Members {
			switch {
			case !g.There[k]:
			case g.Fault == nil:
				arrived = append(arrived, raw)
				g.Moved++
			case errors.As(g.Fault, new(redis.Error)):
				refused = append(refused, scores[i][k], raw)
			}
		}
	}
	if len(arrived)+len(refused) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	args := append(append([]any{len(arrived)}, arrived...), refused...)
	if err := finishScript.Run(ctx, rdb, []string{set, keys.Moving(set)}, args...).Err(); err != nil {
		return fmt.Errorf("finish members of %s: %w", set, err)
	}
	return nil
}

// claim claims the members of all groups and returns the text of the score of each, ""
// for one that was not there.
func claim(ctx context.Context, rdb redis.Scripter, set string, groups []*Group) ([][]string, error) {
	args := []any{Life.Milliseconds()}
	for _, g := range groups {
		args = append(args, g.Members...)
	}
	flat, err := claimScript.Run(ctx, rdb, []string{set, keys.Moving(set)}, args...).StringSlice()
	if err == nil && len(flat) != len(args)-1 {
		err = fmt.Errorf("got %d values, want %d", len(flat), len(args)-1)
	}
	if err != nil {
		return nil, fmt.Errorf("claim members of %s: %w", set, err)
	}
	scores := make([][]string, len(groups))
	for i, g := range groups {
		scores[i], flat = flat[:len(g.Members)], flat[len(g.Members):]
	}
	return scores, nil
}

// Abandoned puts back into set, due now, what movers that died had claimed.
func Abandoned(ctx context.Context, rdb redis.Scripter, set string) (int, error) {
	n, err := abandonedScript.Run(ctx, rdb, []string{set, keys.Moving(set)}).Int()
	if err != nil {
		return 0, fmt.Errorf("look for abandoned members of %s: %w", set, err)
	}
	return n, nil
}
