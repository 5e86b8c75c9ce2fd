package fetch

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// sickQuiet is how long the log keeps quiet about a queue that was reported.
const sickQuiet = time.Minute

// sickTime is how long the basic fetcher leaves such a queue alone.
const sickTime = 5 * time.Second

// sickQueues remembers queues whose key has the wrong type. They must neither
// stop the other queues nor fill the log.
type sickQueues struct {
	log zerolog.Logger

	mu    sync.Mutex
	until map[string]time.Time // when the log speaks of a queue again
	seen  map[string]time.Time // the last report
}

// report logs the first of the reports of a queue in a while.
func (s *sickQueues) report(queue, problem string) {
	now := time.Now()
	s.mu.Lock()
	fresh := now.After(s.until[queue])
	if fresh {
		if s.until == nil {
			s.until, s.seen = make(map[string]time.Time), make(map[string]time.Time)
		}
		s.until[queue] = now.Add(sickQuiet)
	}
	s.seen[queue] = now
	s.mu.Unlock()
	if fresh {
		s.log.Error().Str("queue", queue).Str("problem", problem).Msg("queue cannot be served, going on without it")
	}
}

// lately tells whether a queue was reported in the last seconds.
func (s *sickQueues) lately(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.seen[queue]) < sickTime
}
