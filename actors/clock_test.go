package actors_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// slowLines is a log that takes its time now and then.
type slowLines struct {
	mu   sync.Mutex
	done []string
}

func (l *slowLines) Write(p []byte) (int, error) {
	if strings.Contains(string(p), `"job done"`) {
		l.mu.Lock()
		l.done = append(l.done, string(p))
		slow := len(l.done)%23 == 0
		l.mu.Unlock()
		if slow {
			time.Sleep(3 * time.Millisecond) // less than what goes back to the queue has waited
		}
	}
	return len(p), nil
}

// What a log takes for the end of one job is not charged to the next one.
func TestAJobsTimeBeginsAfterTheLastOneWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		troupe.HandleClass(&r, "Short", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
			time.Sleep(100 * time.Microsecond) // so short that some are fetched ahead
			return nil
		}))
		for range 300 {
			if _, err := client.New(mem.Client).PushClass(ctx, "Short", nil); err != nil {
				t.Fatal(err)
			}
		}
		log := &slowLines{}
		k := testkit.Start(t, actors.Config{
			Redis: mem.Client, Registry: &r, Logger: zerolog.New(log).Level(zerolog.InfoLevel), DoneLevel: zerolog.InfoLevel,
			Capsules: []actors.Capsule{{Concurrency: 1}},
		})
		k.Await("all done", func() bool { return k.Stats().Processed == 300 && k.Stats().Waiting+k.Stats().Busy == 0 })
		k.Stop()
		log.mu.Lock()
		defer log.mu.Unlock()
		harness.Equal(t, "lines of jobs that are done", len(log.done), 300)
		for _, line := range log.done {
			if !strings.Contains(line, `"elapsed_s":0.0001,`) {
				t.Errorf("a job of 100 µs has taken longer: %s", line)
			}
		}
	})
}
