// Package flight is the flight recorder: the last exceptional events of each process, kept in
// Redis for three days. Jobs that are done leave nothing there.
package flight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	Actor   string    `json:"actor,omitempty"`   // path in the tree
	Text    string    `json:"text,omitempty"`    // the error, the cause: one line, at most 300 bytes
	Process string    `json:"process,omitempty"` // identity; Read sets it
}

// The kinds of events that are not about a job; those are job.Outcome.Kind. Text says why.
const (
	Crashed      = "actor crashed"
	Restarted    = "actor restarted"
	Escalated    = "actor escalated"
	Overruled    = "strategy overruled"
	Quiet        = "quiet"
	CapsuleQuiet = "capsule quiet"
	Stop         = "stop"
	Fenced       = "fenced"
	Rescued      = "jobs rescued"
	Outbox       = "outbox"     // its relay leads, waits, or cannot work
	Configured   = "configured" // concurrency or queues were changed, or a change was refused
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
	return Last(ctx, rdb, Most, identity)
}

// Last returns at most so many of the last records of each of these processes, in the order of
// time. What cannot be read is left out.
func Last(ctx context.Context, rdb redis.UniversalClient, most int64, identities ...string) ([]Record, error) {
	texts := make([]*redis.StringSliceCmd, len(identities))
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range identities {
			texts[i] = pipe.LRange(ctx, keys.Flight(id), -most, -1)
		}
		return nil
	})
	records := []Record{}
	for i, id := range identities {
		for _, text := range texts[i].Val() {
			var r Record
			if json.Unmarshal([]byte(text), &r) == nil {
				r.Process = id
				records = append(records, r)
			}
		}
	}
	slices.SortStableFunc(records, func(a, b Record) int { return a.At.Compare(b.At) })
	return records, err
}

// Latest returns the last records, the newest first: 100 of each process at most, of the 100 that
// have written last.
func Latest(ctx context.Context, rdb redis.UniversalClient) ([]Record, error) {
	const most = 100
	ids, err := rdb.ZRange(ctx, keys.Flights, -most, -1).Result()
	if err != nil {
		return nil, err
	}
	all, err := Last(ctx, rdb, most, ids...)
	slices.Reverse(all)
	return all, err
}

// Processes returns the identities of the processes that have records, also of those that ended within the last three days.
func Processes(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	return rdb.ZRange(ctx, keys.Flights, 0, -1).Result()
}

// Since returns the records of all processes whose kind contains the text kind and that are newer than
// those seen before, in the order of time. seen maps a process to the time of its last record that was seen; Since updates
// it.
func Since(ctx context.Context, rdb redis.UniversalClient, kind string, seen map[string]time.Time) (all []Record, err error) {
	processes, err := Processes(ctx, rdb)
	if err != nil {
		return nil, fmt.Errorf("list the processes with events: %w", err)
	}
	for _, id := range processes {
		records, err := Read(ctx, rdb, id)
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, fmt.Errorf("read the events of %s: %w", id, err)
		}
		last := seen[id]
		for _, r := range records {
			if r.At.After(last) && strings.Contains(r.Kind, kind) {
				all = append(all, r)
			}
			if r.At.After(seen[id]) {
				seen[id] = r.At
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Record) int { return a.At.Compare(b.At) })
	return all, nil
}
