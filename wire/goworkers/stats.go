package goworkers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
)

// Stats serves over HTTP what go-workers serves at /stats, and go-workers2 at /stats and /retries.
// Its Middleware, in the capsule of the queues, tells it which jobs run in this process.
type Stats struct {
	rdb    redis.UniversalClient
	n      namespace
	name   string
	queues []string

	mu      sync.Mutex
	running map[*running]struct{}
}

type running struct {
	queue     string
	Message   json.RawMessage `json:"message"`
	StartedAt int64           `json:"started_at"`
}

// NewStats makes the Stats of these queues. name is the manager_name of go-workers2.
func NewStats(rdb redis.UniversalClient, namespaceName, name string, queues ...string) *Stats {
	return &Stats{rdb: rdb, n: namespace(namespaceName), name: name, queues: queues, running: map[*running]struct{}{}}
}

// Middleware notes the jobs that run.
func (s *Stats) Middleware(next troupe.Handler) troupe.Handler {
	return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		info, _ := troupe.JobInfoFrom(ctx)
		r := &running{info.Queue, json.RawMessage(p.Bytes()), time.Now().Unix()}
		s.mu.Lock()
		s.running[r] = struct{}{}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.running, r)
		}()
		return next.Perform(ctx, p)
	})
}

// numbers is what Redis knows.
type numbers struct {
	processed, failed, retries int64
	lengths                    []int64 // of the queues
}

func (s *Stats) numbers(ctx context.Context) (n numbers, err error) {
	var processed, failed *redis.StringCmd
	var retried *redis.IntCmd
	lengths := make([]*redis.IntCmd, len(s.queues))
	_, err = s.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		processed, failed = pipe.Get(ctx, s.n.key("stat:processed")), pipe.Get(ctx, s.n.key("stat:failed"))
		retried = pipe.ZCard(ctx, s.n.prefix()+retrySet)
		for i, q := range s.queues {
			lengths[i] = pipe.LLen(ctx, s.n.key("queue:"+q))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // nothing was counted yet
		return n, err
	}
	n.processed, _ = processed.Int64()
	n.failed, _ = failed.Int64()
	n.retries = retried.Val()
	for _, l := range lengths {
		n.lengths = append(n.lengths, l.Val())
	}
	return n, nil
}

// jobs are those that run, by the full names of the queues.
func (s *Stats) jobs(none []*running) map[string][]*running {
	jobs := map[string][]*running{}
	for _, q := range s.queues {
		jobs[s.n.prefix()+q] = none
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.running {
		jobs[s.n.prefix()+r.queue] = append(jobs[s.n.prefix()+r.queue], r)
	}
	return jobs
}

// ServeStats1 answers as go-workers does at /stats, but with the right length of each queue.
func (s *Stats) ServeStats1(w http.ResponseWriter, r *http.Request) {
	n, err := s.numbers(r.Context())
	enqueued := map[string]string{}
	for i, length := range n.lengths {
		enqueued[s.n.prefix()+s.queues[i]] = strconv.FormatInt(length, 10)
	}
	serve(w, err, struct {
		Processed int64                 `json:"processed"`
		Failed    int64                 `json:"failed"`
		Jobs      map[string][]*running `json:"jobs"`
		Enqueued  map[string]string     `json:"enqueued"`
		Retries   int64                 `json:"retries"`
	}{n.processed, n.failed, s.jobs([]*running{}), enqueued, n.retries})
}

// ServeStats2 answers as go-workers2 at /stats.
func (s *Stats) ServeStats2(w http.ResponseWriter, r *http.Request) {
	n, err := s.numbers(r.Context())
	enqueued := map[string]int64{}
	for i, length := range n.lengths {
		enqueued[s.n.prefix()+s.queues[i]] = length
	}
	type manager struct {
		Name       string                `json:"manager_name"`
		Processed  int64                 `json:"processed"`
		Failed     int64                 `json:"failed"`
		Jobs       map[string][]*running `json:"jobs"`
		Enqueued   map[string]int64      `json:"enqueued"`
		RetryCount int64                 `json:"retry_count"`
	}
	serve(w, err, []manager{{s.name, n.processed, n.failed, s.jobs(nil), enqueued, n.retries}})
}

// ServeRetries answers as go-workers2 at /retries: all of goretry, the earliest first. What is not
// JSON in it is left out.
func (s *Stats) ServeRetries(w http.ResponseWriter, r *http.Request) {
	members, err := s.rdb.ZRange(r.Context(), s.n.prefix()+retrySet, 0, -1).Result()
	type retries struct {
		Total int64             `json:"total_retry_count"`
		Jobs  []json.RawMessage `json:"retry_jobs"`
	}
	all := retries{Total: int64(len(members)), Jobs: []json.RawMessage{}}
	for _, m := range members {
		if json.Valid([]byte(m)) {
			all.Jobs = append(all.Jobs, json.RawMessage(m))
		}
	}
	serve(w, err, []retries{all})
}

func serve(w http.ResponseWriter, err error, answer any) {
	if err != nil {
		http.Error(w, "Redis: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(answer)
}
