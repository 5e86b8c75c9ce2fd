package rights

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Tool is what people look at a Redis with: a command or the dashboard.
type Tool struct {
	Name      string // in an error: "this command"
	Changes   bool   // it changes what it shows
	dashboard bool
	signIn    bool // people sign in at it: it keeps their sessions
}

// Dashboard is one that changes what it shows, or at which people sign in.
func Dashboard(changes, signIn bool) Tool {
	return Tool{Name: "the dashboard", Changes: changes, dashboard: true, signIn: signIn}
}

// is tells what t is.
func (t Tool) is() kind {
	is := looks
	if t.Changes {
		is |= changes
	}
	if t.signIn {
		is |= signsIn
	}
	if t.dashboard && (t.Changes || t.signIn) {
		is |= keeps
	}
	return is
}

const (
	unknownServer = "nobody is told of Redis's version, memory and persistence"
	wholeJobs     = "long jobs are read whole, one at a time, to show both ends"
	undated       = "periodic jobs are not shown"
	unenabled     = "periodic jobs cannot be changed"
	unlocked      = "a dead unique job that is retried does not take its lock again"
	unlimited     = "limits cannot be set, and no held job can be released"
	uncounted     = "jobs of batches that are deleted or killed are not counted"
	unmarked      = "the charts of the dashboard have no marks of deploys"
)

// toolCommands are all that commands and pages call. Those that look are in Redis's category @read,
// so that a user with +@read can look at everything.
var toolCommands = []command{
	{name: "EXISTS", args: "K"},
	{name: "TYPE", args: "K"},
	{name: "PTTL", args: "K"},
	{name: "GET", args: "K"},
	{name: "MGET", args: "K"},
	{name: "LLEN", args: "K"},
	{name: "LRANGE", args: "K 0 0"},
	{name: "LINDEX", args: "K 0"},
	{name: "LPOS", args: "K x"},
	{name: "SMEMBERS", args: "K"},
	{name: "SSCAN", args: "K 0"},
	{name: "SISMEMBER", args: "K x"},
	{name: "HGET", args: "K x"},
	{name: "HMGET", args: "K x"},
	{name: "HGETALL", args: "K"},
	{name: "ZCARD", args: "K"},
	{name: "ZCOUNT", args: "K 0 0"},
	{name: "ZRANGE", args: "K 0 0"},
	{name: "ZRANK", args: "K x"},
	{name: "ZREVRANK", args: "K x"},
	{name: "ZSCAN", args: "K 0"},
	{name: "SCAN", args: "x", why: unnamed},
	{name: "INFO", why: unknownServer},

	{name: "EVALSHA", args: "S 0", why: wholeJobs},
	{name: "EVAL", args: "return 0", why: wholeJobs},
	{name: "EVALSHA", args: "S 0", only: changes},
	{name: "EVAL", args: "return 0", only: changes},
	{name: "MULTI", only: changes},
	{name: "EXEC", only: changes},
	{name: "EXPIRE", args: "K x", only: changes},
	{name: "PEXPIRE", args: "K x", only: changes},
	{name: "UNLINK", args: "K", only: changes},
	{name: "SET", args: "K x x", only: changes, why: unlocked},
	{name: "LPUSH", args: "K x", only: changes, queued: true},
	{name: "RPUSH", args: "K x", only: changes, queued: true},
	{name: "LREM", args: "K 0 x", only: changes},
	{name: "LTRIM", args: "K 0 x", only: changes},
	{name: "BLPOP", args: "K x", only: changes},
	{name: "SADD", args: "K x", only: changes, queued: true},
	{name: "SREM", args: "K x", only: changes},
	{name: "HSETNX", args: "K x x", only: changes, queued: true},
	{name: "HSET", args: "K x x x", only: changes, why: unenabled},
	{name: "HDEL", args: "K x", only: changes, why: unlimited},
	{name: "SETBIT", args: "K x 0", only: changes, why: uncounted},
	{name: "TIME", only: changes, why: unlimited},
	{name: "ZADD", args: "K x x", only: changes},
	{name: "ZREM", args: "K x", only: changes},
	{name: "ZSCORE", args: "K x", only: changes},
	{name: "ZREMRANGEBYSCORE", args: "K x x", only: changes},
	{name: "ZREMRANGEBYRANK", args: "K x x", only: changes},
	{name: "PUBLISH", args: "C x", only: changes, why: later, queued: true},

	{name: "SET", args: "K x x", only: keeps},
	{name: "DEL", args: "K", only: keeps},
	{name: "LPUSH", args: "K x", only: signsIn, why: unaudited, queued: true},
	{name: "LTRIM", args: "K 0 x", only: signsIn, why: unaudited},
	{name: "LREM", args: "K 0 x", only: signsIn, why: unaudited},
	{name: "EXPIRE", args: "K x", only: signsIn, why: unaudited},
}

// toolKeys are the rules for the keys that the tools read. Each has a key that it covers, and why it
// can be missing, if little happens without it.
var toolKeys = []struct{ rule, key, why string }{
	{keys.Queues, keys.Queues, ""},
	{"queue:*", keys.Queue("default"), ""},
	{keys.Paused, keys.Paused, ""},
	{keys.Retry, keys.Retry, ""},
	{keys.Schedule, keys.Schedule, ""},
	{keys.Dead, keys.Dead, ""},
	{keys.Processes, keys.Processes, ""},
	{keys.DearLeader, keys.DearLeader, ""},
	{"stat:*", keys.StatProcessed, ""},
	{"*:*:*", "host:1:0123456789ab", ""}, // HOST:PID:NONCE
	{"it-*", keys.Iteration("0123456789abcdef01234567"), ""},
	{"troupe:*", keys.Pulses, ""},
	{"j|*", keys.Counters8(early), ""},
	{"h|*", keys.Histogram8("Job", early), ""},
	{"*-[0-9][0-9]-[0-9][0-9]:*", keys.Histogram7("Job", early), ""},
	{"cron_job*", keys.PeriodicSet(""), undated},
	{"sidekiq-scheduler:*", keys.SchedulerStates, "periodic jobs that are shared with sidekiq-scheduler are shown as stuck"},
	{"*-marks", keys.Marks(early), unmarked},
}

// Rule is what grants a tool its rights on one server: +command, ~key and &channel.
func (t Tool) Rule() (rule []string) {
	for _, c := range toolCommands {
		if c.only&^t.is() == 0 {
			rule = append(rule, "+"+strings.ToLower(c.name))
		}
	}
	slices.Sort(rule)
	rule = slices.Compact(rule)
	for _, k := range toolKeys {
		rule = append(rule, "~"+k.rule)
	}
	if t.Changes {
		rule = append(rule, "&troupe:*")
	}
	return rule
}

// CheckTool is Check for a tool. Of a tool that looks, no right to write is asked for.
func CheckTool(ctx context.Context, rdb redis.UniversalClient, t Tool) (warnings []string, err error) {
	one := func(ctx context.Context, node *redis.Client, is kind) ([]string, error) {
		return askServer(ctx, node, "that "+t.Name+" needs", t.Changes, func(a *answers, p redis.Pipeliner) {
			a.askCommands(ctx, p, toolCommands, is)
			for _, k := range toolKeys {
				cmds := []*redis.Cmd{p.Do(ctx, "EXISTS", k.key)}
				if t.Changes {
					cmds = append(cmds, p.Do(ctx, "EVALSHA", noScript, 1, k.key), p.Do(ctx, "EXPIRE", k.key, "x"))
				}
				a.keys = append(a.keys, answer[names]{&names{rule: k.rule, why: k.why}, k.key, cmds})
			}
			if t.Changes && a.queued {
				a.channels = append(a.channels, answer[names]{&names{rule: "troupe:*", why: later}, keys.Wakeup, []*redis.Cmd{p.Do(ctx, "PUBLISH", keys.Wakeup, "x")}})
			}
		})
	}
	switch rdb := rdb.(type) {
	case *redis.Client:
		return one(ctx, rdb, t.is()|single)
	case *redis.ClusterClient: // whose keys have other names: each node is asked for the commands of all
		var mu sync.Mutex
		_ = rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			_, e := one(ctx, node, t.is()|cluster)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = e
			}
			return nil
		})
	}
	return warnings, err
}
