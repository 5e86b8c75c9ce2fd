package actors_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

var ctx = context.Background()

// inProgress counts the jobs in progress.
func inProgress(t *testing.T, rdb redis.UniversalClient) int {
	t.Helper()
	return len(jobsInProgress(t, rdb))
}

// jobsInProgress are the bytes of the jobs in all lists of jobs in progress.
func jobsInProgress(t *testing.T, rdb redis.UniversalClient) (jobs []string) {
	t.Helper()
	lists := harness.Must(redistest.InProgress(ctx, rdb))(t)
	for _, some := range lists {
		jobs = append(jobs, some...)
	}
	return jobs
}

func size(t *testing.T, rdb redis.UniversalClient, key string) int {
	t.Helper()
	kind, err := rdb.Type(ctx, key).Result()
	harness.OK(t, err)
	var n int64
	switch kind {
	case "list":
		n, err = rdb.LLen(ctx, key).Result()
	case "zset":
		n, err = rdb.ZCard(ctx, key).Result()
	case "set":
		n, err = rdb.SCard(ctx, key).Result()
	}
	harness.OK(t, err)
	return int(n)
}

// push pushes n jobs of this step and returns their jids.
func push(k *testkit.Kit, n int, step script.Step) []string {
	var jids []string
	for range n {
		jids = append(jids, k.Push(step))
	}
	return jids
}

// inState tells whether the actor at path is in state.
func inState(k *testkit.Kit, path string, state actors.State) func() bool {
	return func() bool {
		n := k.Tree().Find(path)
		return n.State == state
	}
}
