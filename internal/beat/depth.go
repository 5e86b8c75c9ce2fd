package beat

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

const (
	DepthsEvery = time.Minute // from one sample to the next
	DepthsKept  = 24 * 60     // samples

	mostDepths = 100 // queues of a sample, the longest ones
	longJob    = 64 << 10
	endOfJob   = 4 << 10 // of a long job, in which its times are looked for
)

// Depths is what waited in the queues at a time. The leader of the fleet notes a sample a minute, so
// that charts have a past when nobody has looked.
type Depths struct {
	At     time.Time        `json:"at"`
	Jobs   int64            `json:"jobs"` // of all queues
	Queues map[string]Depth `json:"queues,omitempty"`
}

// Depth is that of a queue that was not empty.
type Depth struct {
	Jobs   int64   `json:"jobs"`
	Oldest float64 `json:"oldest_s"` // for so long its oldest job had waited
}

//go:embed oldest.lua
var oldestSource string

var oldestScript = script.New("beat.oldest", oldestSource)

// NoteDepths adds a sample, unless there is one of just before: another process may have led then.
func NoteDepths(ctx context.Context, rdb redis.UniversalClient, now time.Time) error {
	last, err := LastDepths(ctx, rdb, 1)
	if err != nil || len(last) > 0 && now.Sub(last[0].At).Abs() < DepthsEvery/2 {
		return err
	}
	s, err := sample(ctx, rdb, now)
	if err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	pipe := rdb.Pipeline()
	pipe.LPush(ctx, keys.Depths, text)
	pipe.LTrim(ctx, keys.Depths, 0, DepthsKept-1)
	pipe.Expire(ctx, keys.Depths, DepthsKept*DepthsEvery)
	_, err = pipe.Exec(ctx)
	return err
}

func sample(ctx context.Context, rdb redis.UniversalClient, now time.Time) (s Depths, err error) {
	s = Depths{At: now.UTC().Truncate(time.Second), Queues: map[string]Depth{}}
	names, err := rdb.SMembers(ctx, keys.Queues).Result()
	if err != nil {
		return s, err
	}
	type queue struct {
		name string
		jobs int64
	}
	var all []queue
	for chunk := range slices.Chunk(names, 1000) {
		lengths, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, name := range chunk {
				p.LLen(ctx, keys.Queue(name))
			}
			return nil
		})
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return s, err
		}
		for i, cmd := range lengths {
			if jobs := cmd.(*redis.IntCmd).Val(); jobs > 0 {
				all = append(all, queue{chunk[i], jobs})
				s.Jobs += jobs
			}
		}
	}
	slices.SortFunc(all, func(a, b queue) int { return cmp.Or(cmp.Compare(b.jobs, a.jobs), cmp.Compare(a.name, b.name)) })
	all = all[:min(len(all), mostDepths)]
	oldest, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, q := range all {
			oldestScript.Queue(ctx, p, []string{keys.Queue(q.name)}, longJob, endOfJob)
		}
		return nil
	})
	if err != nil && len(oldest) < len(all) {
		return s, err
	}
	for i, q := range all {
		job, _ := oldest[i].(*redis.Cmd).Text() // of one that was not read the time is not known
		s.Queues[q.name] = Depth{q.jobs, waited(job, now).Seconds()}
	}
	return s, ctx.Err()
}

// enqueued finds the time in a long job of which only the ends are known.
var enqueued = regexp.MustCompile(`"enqueued_at":([0-9.]+)[,}]`)

// waited is for how long a job has waited; 0 if it does not tell.
func waited(job string, now time.Time) time.Duration {
	p, err := troupe.ParsePayload([]byte(job))
	if err != nil {
		p = &troupe.Payload{}
		if all := enqueued.FindAllStringSubmatch(job, -1); len(all) > 0 {
			p.Set("enqueued_at", json.RawMessage(all[len(all)-1][1]))
		}
	}
	for _, key := range []string{"enqueued_at", "created_at"} {
		if at, ok := p.Time(key); ok {
			return max(0, now.Sub(at)).Round(time.Millisecond)
		}
	}
	return 0
}

// LastDepths are the last samples, the newest first. What is none is left out.
func LastDepths(ctx context.Context, rdb redis.UniversalClient, n int) (all []Depths, err error) {
	texts, err := rdb.LRange(ctx, keys.Depths, 0, int64(n)-1).Result()
	if err != nil {
		return nil, fmt.Errorf("read the depths of queues: %w", err)
	}
	for _, text := range texts {
		var s Depths
		if json.Unmarshal([]byte(text), &s) == nil && !s.At.IsZero() {
			all = append(all, s)
		}
	}
	return all, nil
}
