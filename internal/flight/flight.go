// Package flight is the flight recorder: the last exceptional events of each process, kept in
// Redis for three days. Jobs that are done leave nothing there.
package flight

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Most is how many events of a process are kept.
const Most = 1000

// Life is how long they are kept after the last one.
const Life = 72 * time.Hour

// Record is one event.
type Record struct {
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"` // see the constants
	JID     string    `json:"jid,omitempty"`
	Class   string    `json:"class,omitempty"`
	Queue   string    `json:"queue,omitempty"`
	Capsule string    `json:"capsule,omitempty"`
	Actor   string    `json:"actor,omitempty"` // path in the tree
	Text    string    `json:"text,omitempty"`  // the error, the cause: one line, at most 300 bytes
	Process string    `json:"-"`               // identity; Read sets it
}

// The kinds of events. Text says why.
const (
	JobFailed       = "job failed" // and what became of it follows
	JobRetried      = "job retried"
	JobDied         = "job died"
	JobDropped      = "job dropped"
	JobParked       = "job parked"
	JobLate         = "job late" // its result was refused
	JobCancelled    = "job cancelled"
	JobUnresponsive = "job unresponsive"
	JobRequeued     = "job requeued" // at the deadline of a stop
	JobRerouted     = "job rerouted" // of a dead process
	JobSuspected    = "job suspected"
	JobPoisoned     = "job poisoned"
	Crashed         = "actor crashed"
	Restarted       = "actor restarted"
	Escalated       = "actor escalated"
	Overruled       = "strategy overruled"
	Quiet           = "quiet"
	CapsuleQuiet    = "capsule quiet"
	Stop            = "stop"
	Fenced          = "fenced"
	Rescued         = "jobs rescued"
	Configured      = "configured" // concurrency or queues were changed, or a change was refused
)

// Write appends records of a process, the oldest first.
func Write(ctx context.Context, rdb redis.UniversalClient, identity string, records []Record) error {
	if len(records) == 0 {
		return nil
	}
	texts := make([]any, 0, len(records))
	for _, r := range records {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	key := keys.Flight(identity)
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.RPush(ctx, key, texts...)
		pipe.LTrim(ctx, key, -Most, -1)
		pipe.PExpire(ctx, key, Life)
		// processes that are gone have left theirs, too
		pipe.ZAdd(ctx, keys.Flights, redis.Z{Score: float64(time.Now().Unix()), Member: identity})
		pipe.PExpire(ctx, keys.Flights, Life)
		pipe.ZRemRangeByScore(ctx, keys.Flights, "-inf", strconv.FormatInt(time.Now().Add(-Life).Unix(), 10))
		return nil
	})
	return err
}

// Read returns the records of a process, the oldest first. What cannot be read is left out.
func Read(ctx context.Context, rdb redis.UniversalClient, identity string) ([]Record, error) {
	texts, err := rdb.LRange(ctx, keys.Flight(identity), 0, -1).Result()
	records := make([]Record, 0, len(texts))
	for _, text := range texts {
		var r Record
		if json.Unmarshal([]byte(text), &r) == nil {
			r.Process = identity
			records = append(records, r)
		}
	}
	return records, err
}

// Processes are those that have records, also of the last three days' processes that are gone.
func Processes(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	return rdb.ZRange(ctx, keys.Flights, 0, -1).Result()
}
