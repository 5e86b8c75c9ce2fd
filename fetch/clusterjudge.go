package fetch

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Where cluster_reroute puts a unit.
const (
	rerouteNowhere  = 0
	rerouteQueue    = 2
	rerouteSuspects = 3
)

// rerouteOnCluster moves units as they were judged. Within the slot of their
// queue that is one step, the count included. What goes elsewhere is written
// there first: a crash in between leaves it in both, and the next rescuer writes
// the same member of a set again, but another copy into a queue.
func (j *judged) rerouteOnCluster(ctx context.Context, verdicts []verdict, now time.Time) ([]any, error) {
	refused, err := j.send(ctx, verdicts, now)
	if err != nil {
		return nil, err
	}
	args := []any{now.UnixMilli(), j.r.remember().Milliseconds(), tombstoneTime.Milliseconds()}
	out, sent := make([]any, len(verdicts)), []int(nil)
	for i := range verdicts {
		v := &verdicts[i]
		if refused[i] != "" {
			out[i] = refused[i]
			continue
		}
		where, own, recoveries := rerouteNowhere, "", v.recoveries()
		switch {
		case !v.elsewhere():
			if where = rerouteQueue; v.Suspect {
				where = rerouteSuspects
			}
			if v.Payload == nil {
				own = "1"
			}
		case v.To == ToQueue:
			recoveries = "" // it has taken them along
		}
		args = append(args, v.Unit.Receipt, where, own, v.Payload, v.job, recoveries)
		sent = append(sent, i)
	}
	replies, err := clusterReroute.Run(ctx, j.r.rdb, append([]string{
		j.wip, keys.Queue(j.queue), keys.ClusterSuspects(j.queue),
	}, j.counts...), args...).Slice()
	if err != nil {
		return nil, err
	}
	for k, i := range sent {
		out[i] = replies[k]
	}
	return out, nil
}

// elsewhere tells whether the verdict leads out of the slot of its queue.
func (v *verdict) elsewhere() bool { return v.To != ToQueue || v.target().Queue != v.Unit.Queue }

// send writes what goes to other slots, and tells which destination has refused
// its unit. The recoveries of a job that changes its queue go ahead of it.
func (j *judged) send(ctx context.Context, verdicts []verdict, now time.Time) (refused []string, err error) {
	refused = make([]string, len(verdicts))
	moves := make([]*redis.IntCmd, len(verdicts))
	pipe := j.r.rdb.Pipeline()
	for i := range verdicts {
		v := &verdicts[i]
		payload := v.Payload
		if payload == nil {
			payload = v.Unit.Payload
		}
		if v.To == ToQueue && (v.elsewhere() || v.Suspect) {
			to := v.target()
			pipe.SAdd(ctx, keys.Queues, to.list()) // a list for people
		}
		switch {
		case !v.elsewhere():
			continue
		case v.To == ToQueue:
			to := v.target()
			if recoveries := v.recoveries(); recoveries != "" {
				counts := j.r.counts(to.Queue)
				pipe.HSet(ctx, counts[1], v.job, recoveries)
				pipe.ZAdd(ctx, counts[0], redis.Z{Score: float64(now.UnixMilli()), Member: v.job})
				pipe.PExpire(ctx, counts[1], j.r.remember())
				pipe.PExpire(ctx, counts[0], j.r.remember())
			}
			list := keys.Queue(to.Queue)
			if to.Suspect {
				list = keys.ClusterSuspects(to.Queue)
			}
			moves[i] = pipe.RPush(ctx, list, payload)
		case v.To == ToDead:
			moves[i] = redis.NewIntCmd(ctx, "zadd", keys.Dead, score(v.Score), payload)
			_ = pipe.Process(ctx, moves[i]) // only queues it
			trimDead(ctx, pipe, v.Trim)
		default:
			moves[i] = redis.NewIntCmd(ctx, "zadd", keys.Schedule, score(v.Score), payload)
			_ = pipe.Process(ctx, moves[i])
			pipe.Publish(ctx, keys.Bell, 1)
		}
	}
	if pipe.Len() == 0 {
		return refused, nil
	}
	_, _ = pipe.Exec(ctx) // the errors are in the commands
	for i, cmd := range moves {
		if cmd == nil || cmd.Err() == nil {
			continue
		}
		if !isReply(cmd.Err()) {
			return nil, cmd.Err()
		}
		refused[i] = cmd.Err().Error()
	}
	return refused, nil
}

// backOnCluster puts some units back as they are.
func (j *judged) backOnCluster(ctx context.Context, receipts []string) (moved int, err error) {
	verdicts := make([]verdict, len(receipts))
	for i, receipt := range receipts {
		v := &verdicts[i]
		v.Unit = Unit{Queue: j.queue, Receipt: receipt, Suspect: isSuspect(receipt)}
		v.Suspect = v.Unit.Suspect
	}
	replies, err := j.rerouteOnCluster(ctx, verdicts, time.Time{})
	for _, reply := range replies {
		switch reply := reply.(type) {
		case string:
			err = &refusal{reply}
		case int64:
			moved += int(reply)
		}
	}
	return moved, err
}
