package fetch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

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
	fenced string
	set    bool // of suspects
	cause  string
}

// batch deals with some units, newest first, and tells how many were moved.
func (j *judged) batch(ctx context.Context, receipts []string, done *RescuedFrom) (int, error) {
	bytes, err := j.r.rdb.HMGet(ctx, j.wip, receipts...).Result()
	if err != nil {
		return 0, err
	}
	var orphans []Orphan
	var names []any
	for i, b := range bytes {
		if text, ok := b.(string); ok {
			u := Unit{Queue: j.queue, Payload: bytesOf(text), Receipt: receipts[i], Suspect: j.set}
			orphans = append(orphans, Orphan{Unit: u, From: j.id})
			names = append(names, j.r.judge.Key(u.Payload))
		}
	}
	if len(orphans) == 0 {
		return 0, nil
	}
	known, err := recallScript.Run(ctx, j.r.rdb, []string{keys.Recovered, keys.RecoveredLog},
		append([]any{j.r.window.Milliseconds(), maxRecovered}, names...)...).StringSlice()
	if err != nil {
		return 0, err
	}
	now := time.UnixMilli(int64(atoi(known[0])))
	fates := make([]Fate, len(orphans))
	args := []any{now.UnixMilli(), (j.r.window + time.Hour).Milliseconds()}
	lists := &keyList{first: 8}
	for i := range orphans {
		o := &orphans[i]
		o.Recoveries = j.history(known[i+1], now)
		fates[i] = j.r.judge.Judge(*o)
		args = append(args, j.args(*o, fates[i], names[i], lists)...)
	}
	replies, err := rerouteScript.Run(ctx, j.r.rdb, append([]string{
		j.fenced, j.wip, keys.Schedule, keys.Dead, keys.Queues, keys.Recovered, keys.RecoveredLog,
	}, lists.keys...), args...).Slice()
	if err != nil {
		return 0, err
	}
	moved := 0
	for i, reply := range replies {
		switch reply := reply.(type) {
		case string:
			if err == nil {
				err = fmt.Errorf("%s: %s", fates[i].To, reply)
			}
		case int64:
			if reply == 1 {
				moved++
				if !fates[i].plain(orphans[i]) {
					done.Judged = append(done.Judged, Judged{orphans[i], fates[i]})
				}
			}
		}
	}
	return moved, err
}

// history is what is remembered of a job, with this recovery. What cannot be
// read counts as nothing: it must not keep a job from being put back.
func (j *judged) history(text string, now time.Time) []Recovery {
	var all []Recovery
	if text != "" && json.Unmarshal([]byte(text), &all) != nil {
		all = nil
	}
	all = slices.DeleteFunc(all, func(r Recovery) bool { return now.Sub(r.At) > j.r.window })
	all = all[max(0, len(all)-maxRecoveries+1):]
	return append(all, Recovery{At: now.UTC(), Process: processOf(j.id), Suspect: j.set, Cause: j.cause})
}

// args are the ten arguments of reroute for one unit.
func (j *judged) args(o Orphan, f Fate, name any, lists *keyList) []any {
	var target any
	known, own, recoveries := "", "", ""
	if f.To == ToQueue {
		to := Unit{Queue: f.Queue, Suspect: f.Suspect}
		if to.Queue == "" {
			to.Queue = o.Unit.Queue
		}
		if to.list() != o.Unit.list() {
			known = to.list()
		}
		target = lists.number(keys.Queue(to.list()))
	} else {
		target = score(f.Score)
	}
	if f.Payload == nil {
		own = "1"
	}
	if !f.Forget {
		text, err := json.Marshal(o.Recoveries)
		if err == nil {
			recoveries = string(text)
		}
	}
	before, most := f.Trim.args()
	return []any{o.Unit.Receipt, strconv.Itoa(int(f.To)), target, known, own, f.Payload, before, most, name, recoveries}
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

// Acquit forgets the recoveries of these jobs, by Judge.Key: they have ended.
func (r *Rescuer) Acquit(ctx context.Context, jobs ...string) error {
	if len(jobs) == 0 {
		return nil
	}
	args := make([]any, len(jobs))
	for i, job := range jobs {
		args[i] = job
	}
	return acquitScript.Run(ctx, r.rdb, []string{keys.Recovered, keys.RecoveredLog}, args...).Err()
}
