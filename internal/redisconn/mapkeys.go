// This file has a client of Redis work on the keys of another system, or of a
// namespace: it renames the keys of each command on the way.

package redisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// MapKeys has every command of rdb, a *redis.Client, use the key rename(key) in place of key.
// Channels keep their names, and so do keys in replies. A command that it does not know fails.
func MapKeys(rdb redis.UniversalClient, rename func(key string) string) {
	if c, ok := rdb.(*redis.Client); ok {
		c.AddHook(hook{rename})
		return
	}
	rdb.(*redis.ClusterClient).AddHook(refusal{}) //nolint:forcetypeassert // there is no third
}

type hook struct{ rename func(string) string }

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if ctx.Value(mapped{}) == nil {
			if err := h.rewrite(cmd); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := h.rewrite(cmd); err != nil {
				for _, c := range cmds {
					c.SetErr(err)
				}
				return err
			}
		}
		return next(ctx, cmds)
	}
}

// MappedKeys is the context of a command whose arguments have been sent before: their keys are
// renamed already.
func MappedKeys(ctx context.Context) context.Context { return context.WithValue(ctx, mapped{}, true) }

type mapped struct{}

// rewrite renames the keys of a command in its arguments.
func (h hook) rewrite(cmd redis.Cmder) error {
	args := cmd.Args()
	if cmd.Name() == "scan" {
		return h.rewriteScan(args)
	}
	first, last, err := keysOf(args)
	if err != nil {
		return err
	}
	for i := first; i < last; i++ {
		switch key := args[i].(type) {
		case string:
			args[i] = h.rename(key)
		case *string:
			args[i] = h.rename(*key)
		default:
			return fmt.Errorf("keyspace: key %d of %s is a %T, expected a string", i, cmd.Name(), key)
		}
	}
	return nil
}

// rewriteScan has a SCAN match the renamed keys; those of its reply keep their names.
func (h hook) rewriteScan(args []any) error {
	at := slices.Index(args, any("match")) + 1
	if at == 0 {
		return errors.New("keyspace: SCAN without MATCH would read the keys of others")
	}
	pattern, _ := args[at].(string)
	prefix, _ := strings.CutSuffix(h.rename(pattern), pattern)
	args[at] = literal.Replace(prefix) + pattern
	return nil
}

// literal makes a pattern of SCAN that stands for a text as it is.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// keysOf are the arguments of a command that are keys: from first, before last.
func keysOf(args []any) (first, last int, err error) {
	name, _ := args[0].(string)
	name = strings.ToLower(name)
	switch kind, known := commands[name]; {
	case !known:
		return 0, 0, fmt.Errorf("keyspace: the keys of the command %q are not known", name)
	case kind == all:
		return 1, len(args), nil
	case kind == script:
		n, ok := args[2].(int)
		if !ok {
			return 0, 0, fmt.Errorf("keyspace: the number of keys of %s is a %T", name, args[2])
		}
		return 3, 3 + n, nil
	default:
		return 1, 1 + kind, nil
	}
}

// How many of the first arguments are keys.
const (
	all    = -1
	script = -2
)

var commands = map[string]int{
	"ping": 0, "hello": 0, "auth": 0, "select": 0, "client": 0, "info": 0, "config": 0, "acl": 0, "time": 0, "script": 0, "publish": 0,
	"multi": 0, "exec": 0, "wait": 0, "command": 0,

	"eval": script, "evalsha": script, "del": all, "exists": all, "unlink": all, "blmove": 2, "lmove": 2,

	"get": 1, "set": 1, "incrby": 1, "expire": 1, "pexpire": 1, "pttl": 1, "ttl": 1, "type": 1,
	"llen": 1, "lrange": 1, "lpush": 1, "rpush": 1, "lrem": 1, "lindex": 1, "lpos": 1,
	"sadd": 1, "srem": 1, "smembers": 1, "scard": 1, "sismember": 1,
	"sscan": 1, "zscan": 1, "hscan": 1, "zmscore": 1, "lset": 1,
	"hget": 1, "hset": 1, "hdel": 1, "hkeys": 1, "hlen": 1, "hgetall": 1, "hmget": 1, "hexists": 1,
	"zadd": 1, "zrem": 1, "zcard": 1, "zrange": 1, "zrangebyscore": 1, "zscore": 1, "zrank": 1, "zrevrank": 1, "zremrangebyscore": 1, "zremrangebyrank": 1, "zcount": 1,
}

// refusal answers on a cluster, where a namespace would move keys to other slots than their commands are sent to.
type refusal struct{}

var errCluster = errors.New("keyspace: a Redis Cluster has one namespace only, expected one server or Sentinel")

func (refusal) DialHook(next redis.DialHook) redis.DialHook { return next }

func (refusal) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { cmd.SetErr(errCluster); return errCluster }
}

func (refusal) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(errCluster)
		}
		return errCluster
	}
}
