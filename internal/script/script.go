// Package script runs Lua scripts by their hash and loads them when Redis does
// not know them (NOSCRIPT: first use, restart, failover). Scripts of this
// project move bytes; none decodes a job.
package script

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Script is one Lua script. It is safe for concurrent use.
type Script struct {
	Name string
	s    *redis.Script
}

// New makes a script; name is used in errors.
func New(name, src string) *Script { return &Script{Name: name, s: redis.NewScript(src)} }

// Queue adds the script to a pipeline, as a whole: there Redis could not be asked
// again.
func (s *Script) Queue(ctx context.Context, p redis.Pipeliner, keys []string, args ...any) *redis.Cmd {
	return s.s.Eval(ctx, p, keys, args...)
}

// Run executes the script: EVALSHA, and EVAL once when Redis answers NOSCRIPT
// (a NOSCRIPT answer proves that nothing ran, so the repetition is safe).
func (s *Script) Run(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd {
	cmd := s.s.EvalSha(ctx, c, keys, args...)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd = s.s.Eval(ctx, c, keys, args...)
	}
	return cmd
}
