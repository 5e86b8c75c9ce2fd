package contender

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// The semaphore of asynq's module x is what its users keep a limit with: a handler asks, and a task that finds no room ends with an
// error that is not counted and comes back later. The newest version of that module is for go-redis 8 and fits no asynq since 0.24, so
// that its two steps stand here: one script, and a ZREM.

// errNoRoom is the error of a task that finds none.
var errNoRoom = errors.New("there is no room")

// noRoomIn is when such a task comes back. With a second the rate is an eighth.
const noRoomIn = 100 * time.Millisecond

// noRoomPoll is how often then tasks whose time has come are looked for, and an empty queue.
const noRoomPoll = 10 * time.Millisecond

const semaphoreKey = "asynq:sema:bench"

var semaphore = redis.NewScript(`
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
return redis.call('ZADD', KEYS[1], ARGV[3], ARGV[4])
`)

// limited runs tasks of next while there is room.
func (s *Session) limited(rdb *redis.Client, next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		now := time.Now()
		n, err := semaphore.Run(ctx, rdb, []string{semaphoreKey}, now.Unix(), s.AtOnce, now.Add(time.Minute).Unix(), id).Int()
		if err != nil {
			return err
		}
		if n == 0 {
			s.Progress.Refuse()
			return errNoRoom
		}
		defer rdb.ZRem(context.WithoutCancel(ctx), semaphoreKey, id)
		return next.ProcessTask(ctx, t)
	})
}
