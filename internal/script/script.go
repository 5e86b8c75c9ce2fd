// Package script runs Lua scripts by their hash and loads them when Redis does
// not know them (NOSCRIPT: first use, restart, failover). Scripts of this
// project move bytes; none decodes a job.
package script

import (
	"context"
	_ "embed"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
)

// Bound is the head of scripts that write to a dead set: it has the function bound.
//
//go:embed bound.lua
var Bound string

// Unlock is the head of scripts that end jobs: it has the function unlock.
//
//go:embed unlock.lua
var Unlock string

// Trim adds to a pipeline what bound does.
func Trim(ctx context.Context, p redis.Pipeliner, dead string, t limits.Trim) {
	if t.Before != 0 {
		p.ZRemRangeByScore(ctx, dead, "-inf", scores.Format(t.Before))
	}
	if t.Max > 0 {
		p.ZRemRangeByRank(ctx, dead, 0, -int64(t.Max))
	}
}

// Script is one Lua script. It is safe for concurrent use.
type Script struct {
	Name string
	src  string
	s    *redis.Script
}

// all are the scripts of the program, by their SHA-1.
var all sync.Map

// New makes a script; name is used in errors and in Names. Of two scripts with the same text the
// first one's name counts there.
func New(name, src string) *Script {
	s := &Script{Name: name, src: src, s: redis.NewScript(src)}
	all.LoadOrStore(s.s.Hash(), s)
	return s
}

// Named returns the script of that name, nil if there is none.
func Named(name string) (found *Script) {
	all.Range(func(_, s any) bool {
		if s, ok := s.(*Script); ok && s.Name == name {
			found = s
		}
		return found == nil
	})
	return found
}

// Names returns the name of each script that was made, by its SHA-1: SLOWLOG and MONITOR
// show a script by that.
func Names() map[string]string {
	names := make(map[string]string)
	all.Range(func(hash, s any) bool {
		names[hash.(string)] = s.(*Script).Name
		return true
	})
	return names
}

// Source is the text of the script of the program that has this SHA-1.
func Source(hash string) (string, bool) {
	s, ok := all.Load(hash)
	if !ok {
		return "", false
	}
	return s.(*Script).src, true
}

// Hash is what EVALSHA calls the script.
func (s *Script) Hash() string { return s.s.Hash() }

// Load has the server know the script.
func (s *Script) Load(ctx context.Context, c redis.Scripter) error { return s.s.Load(ctx, c).Err() }

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

// Free is how many free places are in front of the arguments of Flat.
const Free = 2

// Flat executes a script whose reply is a flat list, and reads that as strings: half the
// allocations of the general reply. args are Free free places, the number of keys, the
// keys and the arguments.
func (s *Script) Flat(ctx context.Context, c redis.UniversalClient, args []any) ([]string, error) {
	args[0], args[1] = "evalsha", s.s.Hash()
	reply, err := flat(ctx, c, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		args[0], args[1] = "eval", s.src
		reply, err = flat(redisconn.MappedKeys(ctx), c, args)
	}
	return reply, err
}

func flat(ctx context.Context, c redis.UniversalClient, args []any) ([]string, error) {
	cmd := redis.NewStringSliceCmd(ctx, args...)
	cmd.SetFirstKeyPos(3) // a cluster client finds the node by it
	err := c.Process(ctx, cmd)
	return cmd.Val(), err
}

//go:embed put.lua
var putSource string

// Put writes to a destination in a slot of its own; see put.lua. Redis carries it out when it is out of memory, too.
var Put = New("put", Bound+putSource)

// KeyNumber is the number of a key among those of a script; a new one is added.
func KeyNumber(names *[]string, key string) int {
	i := slices.Index(*names, key)
	if i < 0 {
		i, *names = len(*names), append(*names, key)
	}
	return i + 1
}
