package fetch

import (
	"context"

	"github.com/redis/go-redis/v9"
)

var (
	clusterMark    = loadHot("cluster_mark")
	clusterTake    = loadHot("cluster_take")
	clusterSettle  = loadHot("cluster_settle")
	clusterRestore = loadHot("cluster_restore")
	clusterLeave   = loadHot("cluster_leave")

	clusterShut    = load("cluster_shut")
	clusterReroute = load("cluster_reroute")
)

// eval is one run of a script, with keys of one slot, among others.
type eval struct {
	script hotScript
	args   []any // behind the name and the script: number of keys, keys, arguments
	cmd    *redis.StringSliceCmd
}

func newEval(s hotScript, keys []string, args ...any) *eval {
	all := make([]any, 0, 1+len(keys)+len(args))
	all = append(all, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return &eval{script: s, args: append(all, args...)}
}

func (e *eval) make(ctx context.Context, known bool) redis.Cmder {
	head := []any{"eval", e.script.src}
	if known {
		head = []any{"evalsha", e.script.hash}
	}
	e.cmd = redis.NewStringSliceCmd(ctx, append(head, e.args...)...)
	return e.cmd
}

// runAll runs scripts and other commands side by side, in one pipeline per node,
// and scripts that a node did not know once more. Each command has its own error;
// the first of a script is returned.
func runAll(ctx context.Context, rdb redis.UniversalClient, evals []*eval, others ...redis.Cmder) error {
	pipe := rdb.Pipeline()
	for _, e := range evals {
		_ = pipe.Process(ctx, e.make(ctx, true)) // only queues it
	}
	for _, cmd := range others {
		_ = pipe.Process(ctx, cmd)
	}
	if pipe.Len() == 0 {
		return nil
	}
	_, failed := pipe.Exec(ctx)
	if failed == nil {
		return nil
	}
	again, told := rdb.Pipeline(), false
	for _, e := range evals {
		if redis.HasErrorPrefix(e.cmd.Err(), "NOSCRIPT") { // nothing ran: safe to repeat
			_ = again.Process(ctx, e.make(ctx, false))
			told = true
		}
	}
	if told {
		_, _ = again.Exec(ctx) // read below
	}
	for _, cmd := range others {
		told = told || cmd.Err() != nil
	}
	var fenced, first error
	for _, e := range evals {
		err := e.cmd.Err()
		if err != nil && first == nil {
			first = err
		}
		if redis.HasErrorPrefix(err, "FENCED") {
			fenced = err
		}
	}
	switch {
	case fenced != nil:
		return fenced // it says more than that another node was away
	case first == nil && !told:
		return failed // a hook of the given client's
	}
	return first
}
