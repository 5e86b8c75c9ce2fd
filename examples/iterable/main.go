// Command iterable runs a job that works through a long list and may be
// interrupted at any line: by a deployment, by a crash, by a cancellation.
//
//	seq 100000 >/tmp/rows
//	troupe push Import '"/tmp/rows"'
//	go run ./examples/iterable   # Ctrl-C, and again: it goes on where it was
package main

import (
	"bufio"
	"cmp"
	"context"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
)

// Import has the argument of the Ruby job's build_enumerator.
type Import struct {
	Path string `arg:"0"`
}

// Class is the job's name on the wire.
func (Import) Class() string { return "Import" }

// rows yields the lines of the file from a cursor on, here the number of a line.
func rows(_ context.Context, job *troupe.Job[Import], from *int, yield func(int, string) bool) error {
	file, err := os.Open(job.Args.Path)
	if err != nil {
		return err // retried, like any error
	}
	defer func() { _ = file.Close() }()
	scanner := bufio.NewScanner(file)
	for i := 0; scanner.Scan(); i++ {
		if from != nil && i < *from {
			continue // done by an earlier run
		}
		if !yield(i, scanner.Text()) {
			break // quiet, stop, cancelled or failed: the cursor is saved
		}
	}
	return scanner.Err()
}

// store does one line. It may see a line twice, and must bear that.
func store(ctx context.Context, _ *troupe.Job[Import], row string) error {
	select { // the real work
	case <-time.After(time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func main() {
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379/0"))
	if err != nil {
		log.Fatal().Err(err).Msg("REDIS_URL")
	}

	var jobs troupe.Registry
	troupe.HandleIterable(&jobs, rows, store)

	os.Exit(actors.Main(actors.Config{
		Redis: redis.NewClient(options), Registry: &jobs, Logger: log,
		MaxIterationRuntime: 10 * time.Minute, // then others of the queue go first
	}))
}
