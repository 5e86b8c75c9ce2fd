package goworkers

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

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Left is what a process of go-workers or go-workers2 has, or had, in progress of one queue.
type Left struct {
	Key     string        `json:"key"` // of the list
	Queue   string        `json:"queue"`
	Process string        `json:"process"` // its "process" (ProcessID in go-workers2) option
	Jobs    int64         `json:"jobs"`
	Idle    time.Duration `json:"idle_ns"` // since the list changed, or was looked at; a hint and no proof of death; -1 unknown
	State   State         `json:"state"`
	Moved   int64         `json:"put_back"` // by Adopt
}

// State is what is known of the process of a list.
type State string

// A process without heartbeats, which is any process of go-workers, leaves no sign of life.
const (
	Alive   State = "alive"   // it has heartbeats, the last one is not old
	Stale   State = "stale"   // it has heartbeats, the last one is old
	Unknown State = "unknown" // it has none
)

// Adoption says what Adopt is to do.
type Adoption struct {
	Namespace string

	// Processes are dead, as somebody knows. Those of them that are alive all the same are
	// left alone. The lists of a process that is Stale are adopted also if it is not named.
	Processes []string

	// DryRun changes nothing.
	DryRun bool

	// TTL is how old the last heartbeat of a live process may be; 0 means 60 s, which is
	// the default of go-workers2. A process that is configured with more needs more here.
	TTL time.Duration
}

const (
	defaultTTL = 60 * time.Second
	progress   = ":inprogress"
	scanCount  = 1000
)

// Adopt puts the jobs that dead processes of go-workers and go-workers2 had in progress back into
// their queues, to the end that is taken next, the oldest first, bytes unchanged. It returns every
// list that is in progress, those too that it left alone. It may be broken off and repeated at any
// time. If a process lives all the same its jobs run twice, and none is lost.
func Adopt(ctx context.Context, rdb redis.UniversalClient, a Adoption) ([]Left, error) {
	n := namespace(a.Namespace)
	beats, err := n.heartbeats(ctx, rdb)
	if err != nil {
		return nil, fmt.Errorf("adopt: %w", err)
	}
	now, err := rdb.Time(ctx).Result()
	if _, refused := redisconn.Refused(err); refused && a.DryRun {
		now, err = time.Now(), nil // who may only look
	}
	if err != nil {
		return nil, fmt.Errorf("adopt: %w", err)
	}
	ttl := a.TTL
	if ttl <= 0 {
		ttl = defaultTTL
	}
	lists, err := n.inProgress(ctx, rdb)
	for i := range lists {
		l := &lists[i]
		l.State = Unknown
		if beat, ok := beats[l.Key]; ok {
			l.State = Stale
			if beat > now.Add(-ttl).Unix() {
				l.State = Alive
			}
		}
		dead := l.State == Stale || l.State == Unknown && slices.Contains(a.Processes, l.Process)
		if err == nil && dead && !a.DryRun {
			l.Moved, err = n.putBack(ctx, rdb, l)
		}
	}
	if err != nil {
		return lists, fmt.Errorf("adopt: %w", err)
	}
	return lists, nil
}

// putBack empties a list into its queue: its newest job is on the left.
func (n namespace) putBack(ctx context.Context, rdb redis.UniversalClient, l *Left) (moved int64, err error) {
	if err := rdb.SAdd(ctx, n.key("queues"), l.Queue).Err(); err != nil {
		return 0, err
	}
	for {
		err := rdb.LMove(ctx, l.Key, n.key("queue:"+l.Queue), "LEFT", "RIGHT").Err()
		if errors.Is(err, redis.Nil) {
			return moved, nil
		}
		if err != nil {
			return moved, err
		}
		moved++
	}
}

// inProgress are all lists of jobs in progress of the namespace, by name.
func (n namespace) inProgress(ctx context.Context, rdb redis.UniversalClient) (lists []Left, err error) {
	escape := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
	prefix := n.key("queue:")
	it := rdb.Scan(ctx, 0, escape.Replace(prefix)+"*:*"+progress, scanCount).Iterator()
	for it.Next(ctx) {
		key := it.Val()
		payload, err := rdb.LIndex(ctx, key, -1).Bytes()
		if errors.Is(err, redis.Nil) || err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
			continue
		}
		if err != nil {
			return lists, err
		}
		l := Left{Key: key, Idle: -1}
		l.Queue, l.Process = n.split(strings.TrimSuffix(strings.TrimPrefix(key, prefix), progress), payload)
		if l.Jobs, err = rdb.LLen(ctx, key).Result(); err != nil {
			return lists, err
		}
		if idle, err := rdb.ObjectIdleTime(ctx, key).Result(); err == nil { // not under an LFU policy
			l.Idle = idle
		}
		lists = append(lists, l)
	}
	slices.SortFunc(lists, func(a, b Left) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(lists, func(a, b Left) bool { return a.Key == b.Key }), it.Err()
}

// split splits NAME:PROCESS. Both may contain colons, so the queue that a job of the list names
// decides; if the job names none, the process is the last part.
func (n namespace) split(name string, payload []byte) (queue, process string) {
	if p, err := troupe.ParsePayload(payload); err == nil {
		queue = strings.TrimPrefix(p.Queue(), n.prefix())
		if process, ok := strings.CutPrefix(name, queue+":"); ok && queue != "" {
			return queue, process
		}
	}
	i := strings.LastIndexByte(name, ':')
	return name[:i], name[i+1:]
}

// heartbeats are the last beats of go-workers2, in seconds since the epoch, by the keys of
// the lists of their processes. Of two processes with one list the younger beat counts.
func (n namespace) heartbeats(ctx context.Context, rdb redis.UniversalClient) (map[string]int64, error) {
	ids, err := rdb.SMembers(ctx, n.key("processes")).Result()
	if err != nil {
		return nil, err
	}
	beats := map[string]int64{}
	for _, id := range ids {
		fields, err := rdb.HMGet(ctx, n.prefix()+id, "beat", "worker_heartbeats").Result()
		if err != nil {
			return nil, err
		}
		text, _ := fields[0].(string)
		beat, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue // Sidekiq's
		}
		var workers []map[string]any
		text, _ = fields[1].(string)
		if json.Unmarshal([]byte(text), &workers) != nil {
			continue
		}
		for _, w := range workers {
			list, _ := w["in_progress_queue"].(string)
			var inner string // its strings are encoded twice
			if json.Unmarshal([]byte(list), &inner) == nil {
				list = inner
			}
			key := n.key("queue:" + list)
			beats[key] = max(beats[key], beat)
		}
	}
	return beats, nil
}
