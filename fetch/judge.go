package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

const (
	// judgeBatch is how many units a rescuer reads and moves at once.
	judgeBatch = 100

	// maxRecovered is how many jobs with a recovery are remembered.
	maxRecovered = 10_000

	// maxRecoveries is how many recoveries are remembered of one job.
	maxRecoveries = 20
)

// Judge decides where a Rescuer puts what a dead process had in progress. The
// Rescuer counts; what a job is, only the Judge knows.
type Judge interface {
	// Key is the name under which the recoveries of a job are counted.
	Key(payload []byte) string

	// Judge decides about one unit. It may be asked more than once about the
	// same one; only what was done is in Rescued.
	Judge(o Orphan) Fate
}

// Orphan is a unit of work whose process is gone.
type Orphan struct {
	Unit Unit   // Suspect: it ran as the one suspect of its process
	From string // id of the fetcher that had it: IDENTITY#CAPSULE.INCARNATION

	// Recoveries are those within RescuerConfig.Window, this one last.
	Recoveries []Recovery
}

// Recovery is one time that a job lost its process.
type Recovery struct {
	At      time.Time `json:"at"`
	Process string    `json:"process"`           // identity of the process that died
	Suspect bool      `json:"suspect,omitempty"` // it ran as a suspect
	Cause   string    `json:"cause"`             // what is known of the end
}

// Fate is what is done with an Orphan. The zero value puts it back into its
// queue, to the end that is popped next, bytes unchanged.
type Fate struct {
	To      Place   // ToQueue, ToSchedule or ToDead
	Queue   string  // for ToQueue: bare name; "" is its own
	Suspect bool    // for ToQueue: to the suspects of that queue
	Score   float64 // of a set, as in Move
	Payload []byte  // what is written; nil means Unit.Payload
	Trim    Trim    // for ToDead
	Forget  bool    // its recoveries count no longer
	Why     error   // for whoever reads Rescued
}

// plain tells whether the unit goes back as it is.
func (f Fate) plain(o Orphan) bool {
	return f.To == ToQueue && f.Payload == nil && (f.Queue == "" || f.Queue == o.Unit.Queue) && f.Suspect == o.Unit.Suspect
}

// Judged is a unit that did not simply go back to where it came from.
type Judged struct {
	Orphan Orphan
	Fate   Fate
}

// judged is the state of one hash that is emptied by verdicts.
type judged struct {
	r      *Rescuer
	id     string
	queue  string // bare name
	wip    string
	fenced string    // tombstone
	set    bool      // of suspects
	cause  string    // what is known of the end of id
	at     time.Time // of this recovery; zero: now, by Redis's clock
	counts []string  // keys of what is known of recoveries
}

func (r *Rescuer) causeOf(id string) string {
	return cause(processOf(id), strings.TrimSuffix(r.own, "#"))
}

// verdict is what is done with one unit.
type verdict struct {
	Orphan
	Fate
	job string // as it is counted; "" is not counted
}

// recoveries is what is to be remembered of the job; "" is nothing.
func (v *verdict) recoveries() string {
	if v.Forget {
		return ""
	}
	text, err := json.Marshal(v.Recoveries)
	if err != nil {
		return ""
	}
	return string(text)
}

// clip cuts off what fits a page, one unit at least.
func (j *judged) clip(ctx context.Context, receipts []string) ([]string, error) {
	sizes := make([]*redis.IntCmd, len(receipts))
	if _, err := j.r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, receipt := range receipts {
			sizes[i] = p.HStrLen(ctx, j.wip, receipt)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	left := j.r.page.bytes()
	for i, size := range sizes {
		if left -= int(size.Val()); left < 0 && i > 0 {
			return receipts[:i], nil
		}
	}
	return receipts, nil
}

// batch deals with some units, newest first, and tells how many were moved.
func (j *judged) batch(ctx context.Context, receipts []string, done *RescuedFrom) (int, error) {
	verdicts, now, err := j.judge(ctx, receipts)
	if err != nil || len(verdicts) == 0 {
		return 0, err
	}
	move := j.reroute
	if j.r.reg.cluster {
		move = j.rerouteOnCluster
	}
	replies, err := move(ctx, verdicts, now)
	if err != nil {
		return 0, err
	}
	moved := 0
	for i, reply := range replies {
		v := &verdicts[i]
		switch reply := reply.(type) {
		case string:
			if err == nil {
				err = &refusal{fmt.Sprintf("%s: %s", v.To, reply)}
			}
		case int64:
			if reply == 1 {
				moved++
				if !v.plain(v.Orphan) {
					done.Judged = append(done.Judged, Judged{v.Orphan, v.Fate})
				}
			}
		}
	}
	return moved, err
}

// judge asks about the units that are still there.
func (j *judged) judge(ctx context.Context, receipts []string) (verdicts []verdict, now time.Time, err error) {
	bytes, err := j.r.rdb.HMGet(ctx, j.wip, receipts...).Result()
	j.r.page.note(err)
	if err != nil {
		return nil, now, err
	}
	args := []any{j.r.window.Milliseconds(), maxRecovered}
	for i, b := range bytes {
		if text, ok := b.(string); ok {
			u := Unit{Queue: j.queue, Payload: bytesOf(text), Receipt: receipts[i], Suspect: j.set || isSuspect(receipts[i])}
			v := verdict{Orphan: Orphan{Unit: u, From: j.id}, job: j.r.judge.Key(u.Payload)}
			verdicts, args = append(verdicts, v), append(args, v.job)
		}
	}
	if len(verdicts) == 0 {
		return nil, now, nil
	}
	known, err := recallScript.Run(ctx, j.r.rdb, j.counts, args...).StringSlice()
	if err != nil {
		return nil, now, err
	}
	if now = j.at; now.IsZero() {
		now = time.UnixMilli(int64(atoi(known[0])))
	}
	for i := range verdicts {
		v := &verdicts[i]
		v.Recoveries = j.history(known[i+1], now, v.Unit.Suspect)
		v.Fate = j.r.judge.Judge(v.Orphan)
	}
	return verdicts, now, nil
}

// reroute moves units as they were judged.
func (j *judged) reroute(ctx context.Context, verdicts []verdict, now time.Time) ([]any, error) {
	args := []any{now.UnixMilli(), j.r.remember().Milliseconds()}
	lists := &keyList{first: 8}
	for i := range verdicts {
		args = append(args, verdicts[i].args(lists)...)
	}
	return rerouteScript.Run(ctx, j.r.rdb, append([]string{
		j.fenced, j.wip, keys.Schedule, keys.Dead, keys.Queues, j.counts[0], j.counts[1],
	}, lists.keys...), args...).Slice()
}

// remember is how long counts stand that nobody adds to.
func (r *Rescuer) remember() time.Duration { return r.window + time.Hour }

// history is what is remembered of a job, with this recovery. What cannot be
// read counts as nothing: it must not keep a job from being put back.
func (j *judged) history(text string, now time.Time, suspect bool) []Recovery {
	var all []Recovery
	if text != "" && json.Unmarshal([]byte(text), &all) != nil {
		all = nil
	}
	all = slices.DeleteFunc(all, func(r Recovery) bool { return now.Sub(r.At) > j.r.window })
	all = all[max(0, len(all)-maxRecoveries+1):]
	return append(all, Recovery{At: now.UTC(), Process: processOf(j.id), Suspect: suspect, Cause: j.cause})
}

// target is the list of a verdict ToQueue.
func (v *verdict) target() Unit {
	to := Unit{Queue: v.Queue, Suspect: v.Suspect}
	if to.Queue == "" {
		to.Queue = v.Unit.Queue
	}
	return to
}

// args are the ten arguments of reroute for one unit.
func (v *verdict) args(lists *keyList) []any {
	var target any
	known, own := "", ""
	if v.To == ToQueue {
		to := v.target()
		if to.list() != v.Unit.list() {
			known = to.list()
		}
		target = lists.number(keys.Queue(to.list()))
	} else {
		target = score(v.Score)
	}
	if v.Payload == nil {
		own = "1"
	}
	before, most := v.Trim.args()
	return []any{
		v.Unit.Receipt, strconv.Itoa(int(v.To)), target, known, own, v.Payload, before, most, v.job, v.recoveries(),
	}
}

// keyList numbers keys in the order of their first use.
type keyList struct {
	first int
	keys  []string
}

func (l *keyList) number(key string) int {
	i := slices.Index(l.keys, key)
	if i < 0 {
		i = len(l.keys)
		l.keys = append(l.keys, key)
	}
	return l.first + i
}

// Acquit forgets the recoveries of these jobs: they have ended.
func (r *Rescuer) Acquit(ctx context.Context, units ...Unit) error {
	if r.judge == nil {
		return nil // nothing is counted
	}
	jobs := make(map[string][]any) // by queue, where each has its own counts
	for _, u := range units {
		queue := ""
		if r.reg.cluster {
			queue = u.Queue
		}
		jobs[queue] = append(jobs[queue], r.judge.Key(u.Payload))
	}
	var failed []error
	for queue, some := range jobs {
		failed = append(failed, acquitScript.Run(ctx, r.rdb, r.counts(queue), some...).Err())
	}
	return errors.Join(failed...)
}

// counts are the keys of what is known of the recoveries of jobs of a queue.
func (r *Rescuer) counts(queue string) []string {
	if r.reg.cluster {
		return []string{keys.ClusterRecovered(queue), keys.ClusterRecoveredLog(queue)}
	}
	return []string{keys.Recovered, keys.RecoveredLog}
}
