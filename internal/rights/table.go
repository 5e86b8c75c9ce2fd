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
	iterable                  // a class is iterable
	metrics                   // metrics are on

	looks   // of tools: it looks
	changes // it changes what it shows
	keeps   // it keeps a key of its own, or sessions
	signsIn // people sign in at it
)

type command struct {
	name string // with | in front of a subcommand
	// args make a call of the right length that does nothing even when it is carried
	// out. K is a key that is never written, C a channel, S the hash of no script.
	args string
	only kind
	why  string

	queued bool // cannot be asked harmlessly outside of a MULTI
}

const (
	looking   = "idle capsules look at their queues every 500 ms, and no push wakes them"
	closing   = "a capsule that has become full ends its waits by closing their connections"
	later     = "jobs that are pushed for a time soon to come may start late"
	oftener   = "each process looks at the sets as often as a single one does"
	unmeasure = "the Metrics page stays empty"
	unheard   = "requests of operators (cancel a job, configure, show what is so now) are not heard"
	unnamed   = "jobs in progress that no index names any more are not looked for"
	unfound   = "locks of unique jobs that are gone are not looked for, and end by themselves"
	unseen    = "the flight recorder stays empty"
	untimed   = "while this process leads the scheduler no periodic job is pushed, unless Ruby's poller does it"
	unshared  = "periodic jobs that are shared with sidekiq-scheduler are not pushed"
	unaudited = "who has signed in is not in the audit"
)

var commands = []command{
	// scripts, and what surrounds commands; redisconn.Check does without INFO
	{name: "PING"},
	{name: "EVALSHA", args: "S 0"},
	{name: "EVAL", args: "return 0"},
	{name: "TIME"},
	{name: "MULTI", only: single},
	{name: "EXEC", only: single},
	{name: "MULTI", only: iterable},
	{name: "EXEC", only: iterable},
	{name: "COMMAND", only: cluster, why: "go-redis guesses where the keys of a command are, and logs that"},

	// any key, and strings
	{name: "EXISTS", args: "K"},
	{name: "EXPIRE", args: "K x"},
	{name: "PEXPIRE", args: "K x"},
	{name: "PERSIST", args: "K", only: basic},
	{name: "PTTL", args: "K"},
	{name: "TYPE", args: "K"},
	{name: "SCAN", args: "x", why: unnamed},
	{name: "DEL", args: "K"},
	{name: "UNLINK", args: "K"},
	{name: "GET", args: "K"},
	{name: "SET", args: "K x x"},
	{name: "INCRBY", args: "K x"},

	// lists
	{name: "LPUSH", args: "K x", queued: true},
	{name: "RPUSH", args: "K x", queued: true},
	{name: "RPOP", args: "K"},
	{name: "LRANGE", args: "K 0 0"},
	{name: "LINDEX", args: "K 0", only: reliable},
	{name: "LTRIM", args: "K 0 x", only: reliable},
	{name: "LTRIM", args: "K 0 x", only: basic, why: unseen},
	{name: "LLEN", args: "K"},
	{name: "LPOS", args: "K x"},
	{name: "LREM", args: "K 0 x"},
	{name: "LMOVE", args: "K K RIGHT RIGHT"},
	{name: "BLMOVE", args: "K K RIGHT RIGHT x", only: reliable, why: looking},
	{name: "BLMOVE", args: "K K RIGHT RIGHT x", only: basic, why: unheard},
	{name: "BRPOP", args: "K x", only: basic},

	// sets
	{name: "SADD", args: "K x", queued: true},
	{name: "SREM", args: "K x"},
	{name: "SCARD", args: "K", why: oftener},
	{name: "SSCAN", args: "K 0"},
	{name: "SMEMBERS", args: "K"},
	{name: "SISMEMBER", args: "K x"},

	// hashes
	{name: "HSET", args: "K x x x"},
	{name: "HSETNX", args: "K x x", only: reliable, queued: true},
	{name: "HGET", args: "K x"},
	{name: "HDEL", args: "K x"},
	{name: "HMGET", args: "K x"},
	{name: "HLEN", args: "K"},
	{name: "HKEYS", args: "K"},
	{name: "HGETALL", args: "K"},
	{name: "HINCRBY", args: "K x x", only: reliable},
	{name: "HINCRBY", args: "K x x", only: metrics, why: unmeasure},
	{name: "BITFIELD", args: "K x", only: metrics, why: unmeasure},
	{name: "SETBIT", args: "K x 0", only: reliable},

	// sorted sets
	{name: "ZADD", args: "K x x"},
	{name: "ZREM", args: "K x"},
	{name: "ZCARD", args: "K"},
	{name: "ZCOUNT", args: "K 0 0"},
	{name: "ZSCORE", args: "K x"},
	{name: "ZMSCORE", args: "K x"},
	{name: "ZRANGE", args: "K 0 0"},
	{name: "ZRANGEBYSCORE", args: "K 0 0"},
	{name: "ZRANK", args: "K x", why: unfound},
	{name: "ZREVRANK", args: "K x", why: unfound},
	{name: "ZREMRANGEBYSCORE", args: "K x x"},
	{name: "ZREMRANGEBYRANK", args: "K x x"},

	// waits and their end, and the bell of those who push
	{name: "CLIENT|ID", only: reliable, why: closing},
	{name: "CLIENT|UNBLOCK", args: "x", only: reliable, why: closing},
	{name: "SUBSCRIBE", args: "C", why: later, queued: true},
	{name: "PUBLISH", args: "C x", why: later, queued: true},
}

// names is a set of keys or of channels.
type names struct {
	rule string // the pattern that covers all of them
	own  bool   // they are the process's, of no system
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
	{rule: keys.Processes, own: true, list: fixed(keys.Processes)},
	{rule: keys.ProcessCleanup, own: true, list: fixed(keys.ProcessCleanup)},
	{rule: "stat:*", list: fixed(keys.StatProcessed, keys.StatFailed, keys.StatProcessed+":2026-01-31", keys.StatFailed+":2026-01-31")},
	{rule: "*:*:*", own: true, list: func(d *Daemon) []string { // HOST:PID:NONCE
		return []string{d.Identity, keys.Work(d.Identity), keys.Workers(d.Identity), keys.Signals(d.Identity)}
	}},
	{rule: "it-*", own: true, only: iterable, list: fixed(keys.Iteration("0123456789abcdef01234567"))},
	{rule: "troupe:*", list: func(d *Daemon) []string {
		return []string{keys.Rescue, keys.Flushed(d.Identity)}
	}},
	{rule: "troupe:*", own: true, list: func(d *Daemon) []string {
		return []string{keys.Measured(d.Identity), keys.Tree(d.Identity), keys.Pulse(d.Identity), keys.Pulses}
	}},
	{rule: "troupe:*", own: true, why: unheard, list: func(d *Daemon) []string { return []string{keys.Requests(d.Identity), keys.Replies("x")} }},
	{rule: "troupe:*", own: true, why: unseen, list: func(d *Daemon) []string { return []string{keys.Flight(d.Identity), keys.Flights} }},
	{rule: "troupe:*", list: func(d *Daemon) (list []string) {
		id := d.fetcher()
		for _, s := range d.slots() {
			list = append(list, s.Registry(), s.Unread(), s.Index(id), s.List(id, "1.1"))
		}
		return list
	}},
	{rule: "troupe:*", only: single, list: func(d *Daemon) []string {
		c := keys.CommonOf(d.fetcher(), false)
		return []string{c.Owners, c.Expiries, c.Lease, keys.Poller, keys.Standby, keys.Recovered, keys.RecoveredLog}
	}},
	{rule: "troupe:*", only: cluster, list: fixed(
		keys.Moving(keys.Retry), keys.ClusterPoller(keys.Retry), keys.ClusterStandby(keys.Retry),
		keys.Moving(keys.Schedule), keys.ClusterPoller(keys.Schedule), keys.ClusterStandby(keys.Schedule),
	)},
	{rule: "troupe:*", only: cluster, list: each(keys.ClusterRecovered, keys.ClusterRecoveredLog)},
	{rule: "{troupe}:*", only: cluster, list: func(d *Daemon) []string {
		c := keys.CommonOf(d.fetcher(), true)
		return []string{c.Owners, c.Expiries, c.Lease}
	}},
	{rule: "troupe:*", list: fixed(keys.Conflicts, keys.Lock("0", "x", false))},
	{rule: "troupe:*", why: untimed, list: fixed(keys.Periodic)},
	{rule: "cron_job*", why: untimed, list: fixed(keys.PeriodicSet(""), keys.PeriodicSet("default"), keys.PeriodicJob("default", "x", false), keys.PeriodicMarks(keys.PeriodicJob("", "x", false)), keys.PeriodicHistory(keys.PeriodicJob("", "x", false)))},
	{rule: "sidekiq-scheduler:*", only: single, why: unshared, list: fixed(keys.SchedulerStates, keys.SchedulerPushed("x"))},
	{rule: "{queue:*", only: cluster, list: each(keys.ClusterSuspects, keys.ClusterUnreadable)},

	{rule: "j|*", own: true, only: metrics, why: unmeasure, list: fixed(keys.Counters7(early), keys.Counters8(early), keys.TenMinutes8(early))},
	{rule: "h|*", own: true, only: metrics, why: unmeasure, list: fixed(keys.Histogram8("Job", early))},
	{rule: "*-[0-9][0-9]-[0-9][0-9]:*", own: true, only: metrics, why: unmeasure, list: fixed(keys.Histogram7("Job", early))},
}

var channelNames = []names{
	{rule: "troupe:*", why: later, list: fixed(keys.Wakeup)},
}

// fetcher is the id of one.
func (d *Daemon) fetcher() string { return d.Identity + "#default.1" }

// slots are those of its places.
func (d *Daemon) slots() (slots []keys.Slot) {
	if !d.onCluster {
		return []keys.Slot{{}}
	}
	for _, q := range d.Queues {
		slots = append(slots, keys.SlotOf(q, true))
	}
	return slots
}

// early is some time, for the names of keys that hold one. Its day and hour have one
// digit, which Sidekiq 7 pads and 8 does not.
var early = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

func fixed(list ...string) func(*Daemon) []string { return func(*Daemon) []string { return list } }

// each returns the names that all of the functions make for each queue of the daemon.
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
