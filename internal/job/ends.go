package job

import (
	"bytes"
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// KeepEnds keeps the ends of jobs that have just ended so without a run, in a step of their own, of those whose bytes say that their end is
// kept. Of a dead one the error is that in its bytes. What Redis refuses is lost: the job has ended all the same.
func KeepEnds(ctx context.Context, rdb redis.UniversalClient, outcome string, jobs ...[]byte) {
	if redisconn.OnCluster(rdb) {
		return
	}
	pipe := rdb.Pipeline()
	for _, raw := range jobs {
		if !bytes.Contains(raw, []byte(`"`+ResultField+`"`)) {
			continue
		}
		p, err := troupe.ParsePayload(raw)
		if err != nil || p.JID() == "" {
			continue
		}
		ttl := ResultFor(p, nil)
		if ttl == 0 {
			continue
		}
		e := Ended{Outcome: outcome, At: float64(time.Now().UnixMicro()) / 1e6}
		if outcome == EndedDead {
			e.ErrorClass, _ = p.String("error_class")
			e.ErrorMessage, _ = p.String("error_message")
		}
		text := e.Text()
		pipe.Set(ctx, keys.Result(p.JID()), text, ttl)
		pipe.Publish(ctx, keys.Result(p.JID()), text)
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx)
	}
}
