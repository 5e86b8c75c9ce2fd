package rights

import (
	"time"

	"github.com/troupehq/troupe/internal/keys"
)

// The tables hold what a daemon does to Redis. A right without a why is needed; a
// why tells what happens without it. An entry counts for daemons that are all of
// what its only says.

// kind is what a daemon is, as far as its rights depend on it.
type kind int

const (
	single   kind = 1 << iota // one server, not a cluster
	cluster                   // a cluster
	reliable                  // a capsule fetches with fetch.NewReliable
	basic                     // a capsule fetches with fetch.NewBasic
	share                     // a capsule has a Share
	iterable                  // a class is iterable
	metrics                   // metrics are on
)

type command struct {
	name string // with | in front of a subcommand
	// args make a call of the right length that does nothing even when it is carried
	// out. K is a key that is never written, C a channel, S the hash of no script.
	args string
	only kind
	why  string

	queued bool // cannot be asked harmlessly outside of a MULTI
	wakes  bool // lets Redis wake an idle fetcher on one server
	peeks  bool // needed where a waking right is missing
}

const (
	slower    = "idle capsules are woken by a blocking command on each queue, and by a look each 5 s"
	poorer    = "large fetches cost Redis more"
	unmeasure = "the Metrics page stays empty"
)

var commands = []command{
	// scripts, and what surrounds commands; redisconn.Check does without INFO and TYPE
	{name: "PING"},
	{name: "EVALSHA", args: "S 0"},
	{name: "EVAL", args: "return 0"},
	{name: "TIME"},
	{name: "MULTI", only: single},
	{name: "EXEC", only: single},
	{name: "MULTI", only: iterable},
	{name: "EXEC", only: iterable},
	{name: "SCAN", args: "0 MATCH K"},
	{name: "COMMAND", only: cluster, why: "go-redis guesses where the keys of a command are, and logs that"},

	// any key, and strings
	{name: "EXISTS", args: "K"},
	{name: "EXPIRE", args: "K x"},
	{name: "PEXPIRE", args: "K x"},
	{name: "PERSIST", args: "K"},
	{name: "PTTL", args: "K"},
	{name: "TYPE", args: "K", only: basic},
	{name: "DEL", args: "K"},
	{name: "UNLINK", args: "K"},
	{name: "GET", args: "K"},
	{name: "GETEX", args: "K", only: reliable},
	{name: "SET", args: "K x x"},
	{name: "INCRBY", args: "K x"},

	// lists
	{name: "LPUSH", args: "K x", queued: true},
	{name: "RPUSH", args: "K x", queued: true},
	{name: "RPOP", args: "K"},
	{name: "LRANGE", args: "K 0 0"},
	{name: "LTRIM", args: "K 0 x"},
	{name: "LLEN", args: "K"},
	{name: "BRPOP", args: "K x", only: basic},
	{name: "BLMOVE", args: "K K RIGHT RIGHT x", only: reliable, peeks: true},
	{name: "SORT", args: "K BY nosort LIMIT 0 0", only: reliable, why: poorer},
	{name: "MEMORY|USAGE", args: "K", only: reliable, why: poorer},

	// sets
	{name: "SADD", args: "K x", queued: true},
	{name: "SREM", args: "K x"},
	{name: "SCARD", args: "K", why: "each process looks at the sets as often as a single one does"},
	{name: "SSCAN", args: "K 0"},
	{name: "SMEMBERS", args: "K"},
	{name: "SISMEMBER", args: "K x"},
	{name: "SMISMEMBER", args: "K x"},

	// hashes
	{name: "HSET", args: "K x x x"},
	{name: "HGET", args: "K x"},
	{name: "HDEL", args: "K x"},
	{name: "HMGET", args: "K x"},
	{name: "HEXISTS", args: "K x"},
	{name: "HLEN", args: "K"},
	{name: "HKEYS", args: "K"},
	{name: "HSCAN", args: "K 0"},
	{name: "HSTRLEN", args: "K x"},
	{name: "HGETALL", args: "K", only: iterable},
	{name: "HINCRBY", args: "K x x", only: metrics, why: unmeasure},
	{name: "BITFIELD", args: "K x", only: metrics, why: unmeasure},

	// sorted sets
	{name: "ZADD", args: "K x x"},
	{name: "ZREM", args: "K x"},
	{name: "ZCARD", args: "K"},
	{name: "ZCOUNT", args: "K 0 0"},
	{name: "ZSCORE", args: "K x"},
	{name: "ZMSCORE", args: "K x"},
	{name: "ZRANGE", args: "K 0 0"},
	{name: "ZRANGEBYSCORE", args: "K 0 0"},
	{name: "ZREMRANGEBYSCORE", args: "K x x"},
	{name: "ZREMRANGEBYRANK", args: "K x x"},

	// waking up
	{name: "CLIENT|ID", why: slower, wakes: true},
	{name: "CLIENT|TRACKING", args: "x", only: single, why: slower, wakes: true},
	{name: "CLIENT|UNBLOCK", args: "x", only: share, why: "a job that comes to a busy capsule goes back to its queue"},
	{name: "SUBSCRIBE", args: "C", why: slower, queued: true, wakes: true},
	{name: "PUBLISH", args: "C x", why: slower, queued: true},
	{name: "PUBSUB|NUMSUB", args: "C", why: slower},
	{name: "ZPOPMIN", args: "K", only: single, why: slower},
}

// names is a set of keys or of channels.
type names struct {
	rule string // the pattern that covers all of them
	only kind
	why  string
	list func(d *Daemon) []string
}

var keyNames = []names{
	{rule: keys.Queues, list: fixed(keys.Queues)},
	{rule: "queue:*", list: each(keys.Queue, suspects)},
	{rule: keys.Paused, list: fixed(keys.Paused)},
	{rule: keys.Retry, list: fixed(keys.Retry)},
	{rule: keys.Schedule, list: fixed(keys.Schedule)},
	{rule: keys.Dead, list: fixed(keys.Dead)},
	{rule: keys.Processes, list: fixed(keys.Processes)},
	{rule: keys.ProcessCleanup, list: fixed(keys.ProcessCleanup)},
	{rule: "stat:*", list: fixed(keys.StatProcessed, keys.StatFailed, keys.StatProcessed+":2026-01-31", keys.StatFailed+":2026-01-31")},
	{rule: "*:*:*", list: func(d *Daemon) []string { // HOST:PID:NONCE
		return []string{d.Identity, keys.Work(d.Identity), keys.Workers(d.Identity), keys.Signals(d.Identity)}
	}},
	{rule: "it-*", only: iterable, list: fixed(keys.Iteration("0123456789abcdef01234567"))},
	{rule: "troupe:*", list: func(d *Daemon) []string {
		id := d.Identity + "#default.1"
		return []string{
			keys.Rescue, keys.Laps, keys.Flushed(d.Identity), keys.Measured(d.Identity), keys.Tree(d.Identity),
			keys.Parcels(id, "1") + "0",
		}
	}},
	{rule: "troupe:*", list: each(keys.Lap, func(queue string) string { return keys.WIP(queue, "id") })},
	{rule: "troupe:*", only: single, list: func(d *Daemon) []string {
		id, set := d.Identity+"#default.1", keys.SetOf(d.Queues)
		return []string{
			keys.Procs, keys.Leases, keys.Lease(id), keys.Fenced(id), keys.Poller, keys.Standby, keys.Recovered, keys.RecoveredLog,
			keys.Baton(set), keys.Line(set),
		}
	}},
	{rule: "troupe:*", only: cluster, list: fixed(
		keys.Moving(keys.Retry), keys.ClusterPoller(keys.Retry), keys.ClusterStandby(keys.Retry),
		keys.Moving(keys.Schedule), keys.ClusterPoller(keys.Schedule), keys.ClusterStandby(keys.Schedule),
	)},
	{rule: "troupe:*", only: cluster, list: each(keys.ClusterRecovered, keys.ClusterRecoveredLog)},
	{rule: "{troupe}:*", only: cluster, list: func(d *Daemon) []string {
		id := d.Identity + "#default.1"
		return []string{keys.ClusterProcs, keys.ClusterLeases, keys.ClusterLease(id), keys.ClusterFenced(id)}
	}},
	{rule: "{queue:*", only: cluster, list: each(keys.ClusterSuspects)},

	{rule: "j|*", only: metrics, why: unmeasure, list: fixed(keys.Counters7(early), keys.Counters8(early), keys.TenMinutes8(early))},
	{rule: "h|*", only: metrics, why: unmeasure, list: fixed(keys.Histogram8("Job", early))},
	{rule: "*-[0-9][0-9]-[0-9][0-9]:*", only: metrics, why: unmeasure, list: fixed(keys.Histogram7("Job", early))},
}

var channelNames = []names{
	{rule: "troupe:*", why: slower, list: func(d *Daemon) []string {
		return []string{keys.Bell, keys.Wake(d.Identity + "#default")}
	}},
	{rule: "__redis__:invalidate", only: single, why: slower, list: fixed("__redis__:invalidate")},
}

// early is some time, for the names of keys that hold one. Its day and hour have one
// digit, which Sidekiq 7 pads and 8 does not.
var early = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

func fixed(list ...string) func(*Daemon) []string { return func(*Daemon) []string { return list } }

// each names something for every queue.
func each(of ...func(queue string) string) func(*Daemon) []string {
	return func(d *Daemon) (list []string) {
		for _, queue := range d.Queues {
			for _, name := range of {
				list = append(list, name(queue))
			}
		}
		return list
	}
}

func suspects(queue string) string { return keys.Queue(keys.Suspects(queue)) }
