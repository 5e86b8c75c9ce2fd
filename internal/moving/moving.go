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
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
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

// Needed tells whether members have to be moved like this.
func Needed(rdb redis.UniversalClient) bool {
	_, ok := rdb.(*redis.ClusterClient)
	return ok
}

// Member is one that was claimed; Score is the text of its score in the set.
type Member struct {
	Raw   any
	Score string
}

// Claim claims members of set and returns those that were there, by their place
// in members.
func Claim(ctx context.Context, rdb redis.Scripter, set string, members []any) (map[int]Member, error) {
	if len(members) == 0 {
		return nil, nil
	}
	args := append(make([]any, 0, 1+len(members)), Life.Milliseconds())
	scores, err := claimScript.Run(ctx, rdb, []string{set, keys.Moving(set)}, append(args, members...)...).StringSlice()
	if err == nil && len(scores) != len(members) {
		err = fmt.Errorf("got %d values, want %d", len(scores), len(members))
	}
	if err != nil {
		return nil, fmt.Errorf("claim members of %s: %w", set, err)
	}
	claimed := make(map[int]Member)
	for i, score := range scores {
		if score != "" {
			claimed[i] = Member{members[i], score}
		}
	}
	return claimed, nil
}

// Finish forgets members that have arrived and puts those back that were
// refused, with the score they had.
func Finish(ctx context.Context, rdb redis.Scripter, set string, arrived, refused []Member) error {
	if len(arrived)+len(refused) == 0 {
		return nil
	}
	args := []any{len(arrived)}
	for _, m := range arrived {
		args = append(args, m.Raw)
	}
	for _, m := range refused {
		args = append(args, m.Score, m.Raw)
	}
	if err := finishScript.Run(ctx, rdb, []string{set, keys.Moving(set)}, args...).Err(); err != nil {
		return fmt.Errorf("finish members of %s: %w", set, err)
	}
	return nil
}

// Abandoned puts back into set, due now, what movers that died had claimed.
func Abandoned(ctx context.Context, rdb redis.Scripter, set string) (int, error) {
	n, err := abandonedScript.Run(ctx, rdb, []string{set, keys.Moving(set)}).Int()
	if err != nil {
		return 0, fmt.Errorf("look for abandoned members of %s: %w", set, err)
	}
	return n, nil
}
