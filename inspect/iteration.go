package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

// Iterations tells how far iterable jobs have come, in the order of their jids: how many runs have begun,
// where the next one goes on, and how long those took that have ended. It is the zero Iteration for a job that
// has not begun, that is done, or that is not iterable.
func (i *Inspector) Iterations(ctx context.Context, jids ...string) ([]troupe.Iteration, error) {
	all := make([]troupe.Iteration, 0, len(jids))
	for some := range slices.Chunk(jids, scanPage) {
		its, err := job.LoadIterations(ctx, i.rdb, some...)
		if redis.HasErrorPrefix(err, "WRONGTYPE") { // of the only one: it has no state, as among many
			its, err = []troupe.Iteration{{}}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read how far iterable jobs have come: %w", err)
		}
		all = append(all, its...)
	}
	return all, nil
}
