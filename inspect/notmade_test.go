package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
)

// Every call of what New made of nothing, and of zero values, is an error that says what is missing.
func TestWhatIsNotMadeSaysSo(t *testing.T) {
	ctx := t.Context()
	for name, i := range map[string]*inspect.Inspector{"New(nil)": inspect.New(nil), "a nil client": inspect.New((*redis.Client)(nil)), "the zero Inspector": {}} {
		for call, err := range map[string]error{
			"Stats":     second(i.Stats(ctx)),
			"Queues":    second(i.Queues(ctx)),
			"Processes": second(i.Processes(ctx)),
			"Works":     second(i.Works(ctx)),
			"Cancel":    second(i.Cancel(ctx, "j1")),
			"Size":      second(i.RetrySet.Size(ctx)),
			"FindJob":   second(i.DeadSet.FindJob(ctx, "j1")),
			"Each":      walk(i.ScheduledSet.Each(ctx)),
			"RetryAll":  second(i.RetrySet.RetryAll(ctx, inspect.Bulk{})),
			"Schedule":  i.ScheduledSet.Schedule(ctx, time.Now(), new(troupe.Payload)),
			"Summary":   second(i.Queue("default").Summary(ctx)),
			"Queue":     walk(i.Queue("default").Each(ctx)),
			"Clear":     second(i.Queue("default").Clear(ctx)),
			"Quiet":     new(inspect.Process).Quiet(ctx),
			"Retry":     second(new(inspect.SortedEntry).Retry(ctx)),
			"Delete":    second(new(inspect.QueuedJob).Delete(ctx)),
			"Set":       second(new(inspect.JobSet).Size(ctx)),
			"Zero":      second(new(inspect.Queue).Summary(ctx)),
		} {
			if err == nil || !strings.Contains(err.Error(), "inspect: no redis client") {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
	}
}

func walk[T any](seq func(yield func(T, error) bool)) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}
