package fetch

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
)

// toOtherSlot carries out the first step of moves whose destination is in another slot of a
// cluster: it is written, and the job is taken out of its list after that. A process that
// dies in between leaves the job twice rather than nowhere. What is returned is to be done
// in the index.
func (p *index) toOtherSlot(ctx context.Context, todo []moving, refused *error) (here []moving, err error) {
	cmds := make([]*redis.Cmd, len(todo))
	_, err = p.in.f.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range todo {
			cmds[i] = putMove(ctx, pipe, &todo[i].Move)
		}
		return nil
	})
	if err != nil && !redisconn.IsReply(err) {
		return nil, err
	}
	for i, m := range todo {
		switch {
		case cmds[i] == nil || cmds[i].Err() == nil:
			m.written = setOf[m.To] != "" || m.Queue != ""
			here = append(here, m)
		case *refused == nil:
			*refused = fmt.Errorf("%s of queue %s: %w", m.To, m.Unit.Queue, cmds[i].Err())
		}
	}
	return here, nil
}

// setOf are the sorted sets.
var setOf = map[Destination]string{ToRetry: keys.Retry, ToSchedule: keys.Schedule, ToDead: keys.Dead}

// putMove adds to a pipeline the first step of a move that leaves the slot of its queue on a
// cluster, nil if there is none.
func putMove(ctx context.Context, p redis.Pipeliner, m *Move) *redis.Cmd {
	switch m.To { //nolint:exhaustive // ToQueue is in the slot
	case ToRetry, ToSchedule, ToDead:
		return script.Put.Queue(ctx, p, []string{setOf[m.To]}, "ZADD", m.bytes(), score(m.Score), m.Trim.Text())
	case ToBack:
		cmd := put(ctx, p, "SADD", keys.Queues, m.queue())
		if m.Queue != "" {
			cmd = put(ctx, p, "LPUSH", keys.Queue(m.Queue), m.bytes())
		}
		return cmd
	}
	return nil
}

// put adds to a pipeline a write that Redis carries out when it is out of memory, too.
func put(ctx context.Context, p redis.Pipeliner, command, key string, what any) *redis.Cmd {
	return script.Put.Queue(ctx, p, []string{key}, command, what)
}
