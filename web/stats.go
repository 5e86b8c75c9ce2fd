package web

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/doctor"
)

// redisKeys are the lines of INFO that Sidekiq tells.
var redisKeys = []string{"redis_version", "uptime_in_days", "connected_clients", "used_memory_human", "used_memory_peak_human"}

// stats answers as Sidekiq's own pages do at /stats.
func (r *request) stats() (*page, error) {
	s, err := r.fleet.Inspector.Stats(r.Context())
	if err != nil {
		return nil, err
	}
	info, err := r.options.Redis.Info(r.Context()).Result()
	if err != nil && !redis.HasErrorPrefix(err, "NOPERM") {
		return nil, err
	}
	facts := doctor.Fields(info)
	maps.DeleteFunc(facts, func(name, _ string) bool { return !slices.Contains(redisKeys, name) })
	v := map[string]any{
		"sidekiq": map[string]any{
			"processed": s.Processed, "failed": s.Failed, "busy": s.WorkersSize, "processes": s.ProcessesSize, "enqueued": s.Enqueued,
			"scheduled": s.ScheduledSize, "retries": s.RetrySize, "dead": s.DeadSize, "default_latency": s.DefaultQueueLatency.Seconds(),
		},
		"redis": facts, "server_utc_time": time.Now().UTC().Format("15:04:05 UTC"),
	}
	return &page{Data: v, raw: true}, nil
}

// statsQueues answers how many jobs wait in each queue, the fullest first.
func (r *request) statsQueues() (*page, error) {
	queues, err := r.fleet.Inspector.Queues(r.Context())
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, q := range slices.SortedStableFunc(slices.Values(queues), func(a, b inspect.QueueSummary) int { return int(b.Size - a.Size) }) {
		pair, err := json.Marshal(map[string]int64{q.Name: q.Size})
		if err != nil {
			return nil, err
		}
		b.WriteString("," + string(pair[1:len(pair)-1]))
	}
	return &page{Data: json.RawMessage("{" + strings.TrimPrefix(b.String(), ",") + "}"), raw: true}, nil
}
