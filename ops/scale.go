package ops

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/redisconn"
)

const (
	scaleLife = time.Second     // how long an answer of Redis is given
	scaleTime = 2 * time.Second // how long it is waited for
)

// scale tells how much there is to do in the queues of the daemons.
type scale struct {
	daemons []*actors.Daemon

	mu    sync.Mutex // held while Redis is asked: one at a time
	at    time.Time  // of loads, if they are any
	loads map[string]load
}

// load is what there is to do in a queue, or in several.
type load struct {
	Load    int64   `json:"load"`      // Waiting and Running
	Waiting int64   `json:"waiting"`   // in the queue
	Running int64   `json:"running"`   // in progress in all processes of the fleet
	Latency float64 `json:"latency_s"` // how long the oldest has waited
}

func (s *scale) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	loads, err := s.read(r.Context())
	if err != nil {
		code := "redis_away"
		if _, refused := redisconn.Refused(err); refused {
			code = "redis_refuses"
		}
		fail(w, http.StatusServiceUnavailable, code, "Redis does not tell the load: %v", err)
		return
	}
	names := r.URL.Query()["queue"]
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(loads))
	}
	var sum load
	for _, name := range names {
		l, ok := loads[name]
		if !ok {
			fail(w, http.StatusNotFound, "unknown_queue", "queue is %q, expected one of %q", name, slices.Sorted(maps.Keys(loads)))
			return
		}
		sum = load{sum.Load + l.Load, sum.Waiting + l.Waiting, sum.Running + l.Running, max(sum.Latency, l.Latency)}
	}
	write(w, http.StatusOK, sum)
}

// read asks the Redis of each daemon, unless it has been asked just now.
func (s *scale) read(ctx context.Context) (map[string]load, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) < scaleLife && s.loads != nil {
		return s.loads, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scaleTime) // others wait for the same answer
	defer cancel()
	loads := map[string]load{}
	for _, d := range s.daemons {
		clients := map[redis.UniversalClient][]string{}
		for name, rdb := range d.Queues() {
			if rdb != nil {
				clients[rdb] = append(clients[rdb], name)
			}
		}
		for rdb, names := range clients {
			if err := ask(ctx, rdb, names, d.Health().Running, loads); err != nil {
				return nil, err
			}
		}
	}
	s.at, s.loads = time.Now(), loads
	return loads, nil
}

// ask adds the loads of queues to loads. own counts the jobs that this process has in progress: of a
// queue without reliable fetch Redis does not know them.
func ask(ctx context.Context, rdb redis.UniversalClient, names []string, own map[string]int, loads map[string]load) error {
	i := inspect.New(rdb)
	i.MaxRead = inspect.Shown
	running := map[string]int64{}
	for claim, err := range i.Claims(ctx) {
		if err != nil {
			return err
		}
		running[claim.Queue] += claim.Size
	}
	for _, name := range names {
		q, err := i.Queue(name).Summary(ctx)
		if err != nil {
			return err
		}
		n := max(running[name], int64(own[name]))
		loads[name] = load{q.Size + n, q.Size, n, q.Latency.Seconds()}
	}
	return nil
}
