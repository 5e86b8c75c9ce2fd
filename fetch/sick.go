package fetch

import (
	"time"

	"github.com/rs/zerolog"
)

// sickQuiet is how long the log keeps quiet about a queue that was reported.
const sickQuiet = time.Minute

// sickQueues remembers queues whose key has the wrong type. They must neither
// stop the other queues nor fill the log.
type sickQueues struct {
	log   zerolog.Logger
	until map[string]time.Time // when the log speaks of a queue again
}

// report logs the first of the reports of a queue in a while. The lock of the fetcher is held.
func (s *sickQueues) report(queue, problem string) {
	now := time.Now()
	if !now.After(s.until[queue]) {
		return
	}
	if s.until == nil {
		s.until = make(map[string]time.Time)
	}
	s.until[queue] = now.Add(sickQuiet)
	s.log.Error().Str("queue", queue).Str("problem", problem).Msg("queue cannot be served, going on without it")
}
