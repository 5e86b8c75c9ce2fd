package rescue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/script"
)

const (
	policyBatch   = 100         // jobs that a policy is asked about between two scripts
	policyTime    = time.Second // or so long
	maxRecovered  = 10_000      // jobs whose recoveries are remembered
	maxRecoveries = 20          // recoveries that are remembered of a job
	pageTries     = 3           // to read a single job
)

// verdict is what is done with one job.
type verdict struct {
	Decision
	orphan     Orphan
	job        string // as it is counted; "" is not counted
	recoveries string // that are to be remembered of it; "" is nothing
	key        string // of the list that it goes to, for ToQueue
	name       string // of that in the set of queues
	elsewhere  bool   // that lies in another slot of a cluster
}

// bytes is what is written.
func (v *verdict) bytes() []byte {
	if v.Payload == nil {
		return v.orphan.Payload
	}
	return v.Payload
}

// setOf are the sorted sets.
var setOf = map[job.Destination]string{job.ToSchedule: keys.Schedule, job.ToDead: keys.Dead}

// byPolicy asks the policy about the jobs of the list, the newest first, and moves them.
// It leaves those that cannot be read.
func (e *emptying) byPolicy(ctx context.Context, from *From) (moved int, err error) {
	for page, failures := policyBatch, 0; ; {
		jobs, err := e.r.rdb.LRange(ctx, e.list, 0, int64(page-1)).Result()
		if redisconn.HasPrefix(err, "WRONGTYPE") || err == nil && len(jobs) == 0 { // closed already, or empty
			return moved, nil
		}
		if err != nil {
			if failures++; redisconn.IsReply(err) || ctx.Err() != nil || failures > 10 {
				return moved, err
			}
			if page == 1 && failures > pageTries {
				e.r.cfg.Logger.Error().Str("queue", e.queue).Msg("a job is larger than what the connection to redis " +
					"carries within its time-out; it goes back to its queue unread, and its recovery is not counted")
				return moved, nil
			}
			page = max(1, page/4)
			continue
		}
		n, err := e.batch(ctx, jobs, from)
		moved += n
		if err == nil && n > 0 {
			err = e.r.extend(ctx, e.token)
		}
		if err != nil || n == 0 { // all were gone
			return moved, err
		}
	}
}

// batch deals with some jobs; it may leave the last ones, when the policy is slow.
func (e *emptying) batch(ctx context.Context, jobs []string, from *From) (moved int, err error) {
	verdicts, at, err := e.decide(ctx, jobs)
	if err == nil && e.r.cluster {
		err = e.toOtherSlot(ctx, verdicts, at)
	}
	if err != nil {
		return 0, err
	}
	replies, err := e.reroute(ctx, verdicts, at)
	if err != nil {
		return 0, err
	}
	for i, reply := range replies {
		v := &verdicts[i]
		switch reply := reply.(type) {
		case string:
			err = cmp.Or(err, error(refusal(fmt.Sprintf("%s: %s", v.To, reply))))
		case int64:
			moved += int(reply) // 0: it is gone
			plain := v.To == job.ToQueue && v.Payload == nil && v.key == e.target()
			if reply > 0 && !plain {
				from.Rerouted = append(from.Rerouted, Rerouted{Orphan: v.orphan, Decision: v.Decision})
				if v.To == job.ToDead {
					job.KeepEnds(ctx, e.r.rdb, job.EndedDead, v.bytes())
				}
			}
		}
	}
	return moved, err
}

// decide asks the policy.
func (e *emptying) decide(ctx context.Context, jobs []string) (verdicts []verdict, at time.Time, err error) {
	policy := e.r.cfg.Policy
	args := []any{e.r.cfg.Window.Milliseconds(), maxRecovered}
	for _, text := range jobs {
		o := Orphan{Queue: e.queue, Payload: []byte(text), Suspect: e.suspect, From: e.id}
		v := verdict{orphan: o, job: policy.Key(o.Payload)}
		verdicts, args = append(verdicts, v), append(args, v.job)
	}
	known, err := recallScript.Run(ctx, e.r.rdb, e.r.counts(e.queue), args...).StringSlice()
	if err != nil {
		return nil, at, err
	}
	var ms int64
	_, _ = fmt.Sscan(known[0], &ms)
	at = time.UnixMilli(ms)
	for i := range verdicts {
		v := &verdicts[i]
		v.orphan.Recoveries = e.history(known[i+1], at)
		v.Decision = policy.Decide(v.orphan)
		queue := cmp.Or(v.Queue, e.queue)
		v.name, v.key = keys.ListName(queue, v.Suspect), keys.Queue(queue)
		if v.Suspect {
			v.key = keys.SlotOf(queue, e.r.cluster).Suspects(queue)
		}
		v.elsewhere = e.r.cluster && (v.To != job.ToQueue || queue != e.queue)
		if text, err := json.Marshal(v.orphan.Recoveries); err == nil && !v.Forget {
			v.recoveries = string(text)
		}
		if time.Since(at) > policyTime && i > 0 && time.Since(at) < time.Hour {
			return verdicts[:i+1], at, nil
		}
	}
	return verdicts, at, nil
}

// history is what is remembered of a job, with this recovery. What cannot be read counts
// as nothing: it must not keep a job from being put back.
func (e *emptying) history(text string, at time.Time) []Recovery {
	var all []Recovery
	if text != "" && json.Unmarshal([]byte(text), &all) != nil {
		all = nil
	}
	all = slices.DeleteFunc(all, func(r Recovery) bool { return at.Sub(r.At) > e.r.cfg.Window })
	all = all[max(0, len(all)-maxRecoveries+1):]
	process, _, _ := strings.Cut(e.id, "#")
	why := cause(process, strings.TrimSuffix(e.r.own, "#"))
	return append(all, Recovery{At: at.UTC(), Process: process, Suspect: e.suspect, Cause: why})
}

// reroute moves the jobs as was decided.
func (e *emptying) reroute(ctx context.Context, verdicts []verdict, at time.Time) ([]any, error) {
	index := e.slot.Index(e.id)
	names := append([]string{index, e.list, keys.Schedule, keys.Dead, keys.Queues}, e.r.counts(e.queue)...)
	if e.r.cluster {
		names[2], names[3], names[4] = index, index, index
	}
	args := []any{at.UnixMilli(), e.r.remembered().Milliseconds()}
	for _, v := range verdicts {
		var to, target any = int(v.To), scores.Format(v.Score)
		known := ""
		switch {
		case v.elsewhere:
			if to = ""; v.To == job.ToQueue { // they were carried along
				v.recoveries = ""
			}
		case v.To == job.ToQueue:
			target = script.KeyNumber(&names, v.key)
			if v.key != e.target() && !e.r.cluster {
				known = v.name
			}
		}
		args = append(args, v.orphan.Payload, to, target, known, v.Payload, v.Trim.Text(), v.job, v.recoveries, e.dies(&v))
	}
	return rerouteScript.Run(ctx, e.r.rdb, names, args...).Slice()
}

// dies is the place in its batch of a job that is dead now; "" without a batch.
func (e *emptying) dies(v *verdict) string {
	if v.To != job.ToDead || e.r.cluster || !job.MayBatch(v.orphan.Payload) {
		return ""
	}
	p, err := troupe.ParsePayload(v.orphan.Payload)
	if err != nil {
		return ""
	}
	in, ok := job.BatchOf(p)
	if !ok {
		return ""
	}
	return in.String()
}

// toOtherSlot is the first step of what leaves the slot of a cluster: the destination. A
// rescuer that dies behind it leaves the job twice rather than nowhere. The recoveries of
// jobs that change their queue are noted in the slot of the new one; they are worth less
// than the jobs: an error does not matter.
func (e *emptying) toOtherSlot(ctx context.Context, verdicts []verdict, at time.Time) error {
	var cmds []*redis.Cmd
	_, err := e.r.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range verdicts {
			v := &verdicts[i]
			if v.To != job.ToQueue {
				cmds = append(cmds, script.Put.Queue(ctx, pipe, []string{setOf[v.To]}, "ZADD", v.bytes(), scores.Format(v.Score), v.Trim.Text()))
				continue
			}
			if v.key != e.target() { // its suspects, or no longer, or another queue
				cmds = append(cmds, script.Put.Queue(ctx, pipe, []string{keys.Queues}, "SADD", v.name))
			}
			if !v.elsewhere {
				continue
			}
			cmds = append(cmds, script.Put.Queue(ctx, pipe, []string{v.key}, "RPUSH", v.bytes()))
			if counts := e.r.counts(v.Queue); v.job != "" && v.recoveries != "" {
				pipe.ZAdd(ctx, counts[0], redis.Z{Score: float64(at.UnixMilli()), Member: v.job})
				pipe.HSet(ctx, counts[1], v.job, v.recoveries)
				pipe.PExpire(ctx, counts[0], e.r.remembered())
				pipe.PExpire(ctx, counts[1], e.r.remembered())
			}
		}
		return nil
	})
	if redisconn.IsReply(err) {
		err = nil
		for _, cmd := range cmds {
			err = cmp.Or(err, cmd.Err())
		}
	}
	return err
}

// remembered is for how long what is known of recoveries stands.
func (r *Rescuer) remembered() time.Duration { return r.cfg.Window + time.Hour }

// counts are the keys of what is known of the recoveries of jobs of a queue.
func (r *Rescuer) counts(queue string) []string {
	if r.cluster {
		return []string{keys.ClusterRecovered(queue), keys.ClusterRecoveredLog(queue)}
	}
	return []string{keys.Recovered, keys.RecoveredLog}
}

// Forget forgets the recoveries of a job: it has ended.
func (r *Rescuer) Forget(ctx context.Context, queue string, payload []byte) error {
	if r.cfg.Policy == nil {
		return nil // nothing is counted
	}
	return forgetScript.Run(ctx, r.rdb, r.counts(queue), r.cfg.Policy.Key(payload)).Err()
}

// refusal is an answer about a single job or owner.
type refusal string

func (e refusal) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (refusal) RedisError() {}
