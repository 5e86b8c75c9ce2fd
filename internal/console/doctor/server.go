package doctor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rights"
)

// refusals are what it means for jobs that Redis takes no writes, by the code of its refusal: what
// docs/reliability.md says that processes do then.
var refusals = map[string]string{
	"OOM":        "pushes are refused; processes go on fetching and settling, which makes room, and their statistics wait",
	"MISCONF":    "nothing can be pushed, taken or settled; processes wait, and what they run goes on",
	"READONLY":   "nothing can be pushed, taken or settled here",
	"NOREPLICAS": "nothing can be pushed, taken or settled; processes wait, and what they run goes on",
}

// probes is how many keys of a cluster are asked for, so that all of its servers are met.
const probes = 64

// writes finds out whether the servers take writes, and changes nothing: each is sent a SET with a syntax
// error. A server that takes no writes says so and does not look at the syntax.
func (e *exam) writes() error {
	n := 1
	if redisconn.OnCluster(e.rdb) {
		n = probes
	}
	cmds := make([]*redis.Cmd, n)
	_, _ = e.rdb.Pipelined(e.ctx, func(pipe redis.Pipeliner) error { // the errors are in the commands
		for i := range cmds {
			cmds[i] = pipe.Do(e.ctx, "SET", fmt.Sprintf("troupe:probe:%d", i), "x", "x")
		}
		return nil
	})
	told := map[string]bool{}
	for _, cmd := range cmds {
		err := cmd.Err()
		r, refused := redisconn.Refused(err)
		switch meaning, known := refusals[r.Code]; {
		case told[r.Code]:
		case r.Code == "READONLY" && e.facts["role"] == "slave": // the check of replicas tells
		case known:
			e.find(Danger, r.Do, "Redis refuses writes: %s: %s (%s)", r.Text, meaning, r.Code)
		case r.Code == "NOPERM": // the check of rights tells
		case refused || !errors.As(err, new(redis.Error)):
			return err
		}
		told[r.Code] = refused
	}
	return nil
}

func (e *exam) version() error {
	version, err := e.fact("redis_version")
	if err != nil {
		return err
	}
	if redisconn.TooOld(version) {
		e.find(Danger, "upgrade Redis to "+redisconn.MinVersion+" or newer", "Redis is %s: processes of troupe do not start", version)
	}
	return nil
}

func (e *exam) eviction() error {
	policy, err := e.fact("maxmemory_policy")
	if err != nil {
		return err
	}
	used, most := number(e.facts["used_memory"]), number(e.facts["maxmemory"])
	if policy != "noeviction" {
		severity, text := Danger, "Redis drops keys when its %d bytes are full (maxmemory-policy %s): jobs are lost"
		if most == 0 {
			severity, text = Warning, "with maxmemory (now %d: none) Redis would drop keys (maxmemory-policy %s): jobs would be lost"
		}
		e.find(severity, "CONFIG SET maxmemory-policy noeviction, and in redis.conf", text, most, policy)
	}
	if most > 0 && used > most/10*9 {
		e.find(Warning, "give it more memory, or find out what grows: troupe queues, troupe stats",
			"Redis uses %d of at most %d bytes: when they are full pushes are refused; fetching and settling go on, which makes room", used, most)
	}
	return nil
}

func (e *exam) persistence() error {
	aof, err := e.fact("aof_enabled")
	if err != nil {
		return err
	}
	if e.facts["rdb_last_bgsave_status"] == "err" {
		e.find(Danger, "see Redis's log: the disk may be full", "the last snapshot has failed")
	}
	if e.facts["aof_last_write_status"] == "err" {
		e.find(Danger, "see Redis's log: the disk may be full", "the last write of the append-only file has failed")
	}
	if aof == "1" {
		return nil
	}
	save, err := e.setting("save")
	switch {
	case err != nil:
		return err
	case save == "":
		e.find(Danger, "CONFIG SET appendonly yes, and in redis.conf", "nothing is written to disk: when Redis ends all jobs are lost")
	default:
		e.find(Warning, "CONFIG SET appendonly yes, and in redis.conf", "Redis writes snapshots only (save %s): when it dies all since the last one is lost, now %s changes of %s",
			save, e.facts["rdb_changes_since_last_save"], time.Since(time.Unix(number(e.facts["rdb_last_save_time"]), 0)).Round(time.Second))
	}
	return nil
}

func (e *exam) replica() error {
	role, err := e.fact("role")
	if err == nil && role == "slave" {
		e.find(Danger, "use the address of the master, or Sentinel", "this is a replica of %s:%s: nothing can be written", e.facts["master_host"], e.facts["master_port"])
	}
	return err
}

func (e *exam) types() error {
	if err := redisconn.CheckTypes(e.ctx, e.rdb); err != nil {
		if _, wrong := errors.AsType[*redisconn.KeyTypeError](err); !wrong {
			return err
		}
		e.find(Danger, "look who has written it, and RENAME it", "%v", err)
	}
	for _, q := range e.queues {
		if found, err := e.rdb.Type(e.ctx, "queue:"+q.Name).Result(); err != nil {
			return err
		} else if found != "list" && found != "none" {
			e.find(Danger, "look who has written it, and RENAME it", "the key queue:%s is a %s and no list: nothing can be pushed or taken", q.Name, found)
		}
	}
	return e.fleetErr
}

// taking are commands of which each daemon has one or more at least.
var taking = []string{"RPOP", "LMOVE", "BLMOVE"}

func (e *exam) rights() error {
	var names []string
	for _, q := range e.queues {
		names = append(names, q.Name)
	}
	lacks, err := rights.Check(e.ctx, e.rdb, rights.Daemon{Identity: "doctor:1:0123456789ab", Queues: names, Reliable: true, Iterable: true, Metrics: true})
	var missing *rights.Error
	switch {
	case errors.As(err, &missing) && !slices.ContainsFunc(taking, func(c string) bool { return !slices.Contains(missing.Commands, c) }):
		e.find(Note, "nothing if it is for looking; a daemon needs the rule of docs/scaling.md", "the user may not take jobs: it is none of a daemon, and the rights of the daemon's were not looked at")
		return nil
	case errors.As(err, &missing):
		e.find(Danger, "grant the rights", "a daemon with this user does not start: %v", err)
	case err != nil:
		return err
	}
	for _, text := range lacks {
		e.find(Warning, "grant the right", "%s", text)
	}
	return nil
}

// shortest is the time-out of idle clients below which Redis cuts connections that wait.
const shortest = 60

func (e *exam) timeouts() error {
	idle, err := e.setting("timeout")
	if err != nil {
		return err
	}
	if n := number(idle); n > 0 && n < shortest {
		e.find(Warning, "CONFIG SET timeout 0", "Redis cuts clients that are idle for %d s: connections are made again and again", n)
	}
	alive, err := e.setting("tcp-keepalive")
	if err == nil && number(alive) == 0 {
		e.find(Note, "CONFIG SET tcp-keepalive 300", "tcp-keepalive is off: Redis keeps connections of hosts that are gone")
	}
	return err
}

// skew is how far clocks may be apart.
const skew = 2 * time.Second

func (e *exam) clock() error {
	before := time.Now()
	now, err := e.rdb.Time(e.ctx).Result()
	if err != nil {
		return err
	}
	trip := time.Since(before)
	off := now.Sub(before.Add(trip / 2)).Round(time.Millisecond)
	if off.Abs() > skew+trip {
		e.find(Warning, "run an NTP client on both hosts", "the clock of Redis is %s ahead of this host's: jobs start early or late by that, and latencies are wrong", off)
	}
	for _, p := range e.processes {
		if ahead := p.Beat.Sub(before).Round(time.Millisecond); ahead > skew {
			e.find(Warning, "run an NTP client on its host", "the clock of %s is %s ahead of this host's", p.Identity, ahead)
		}
	}
	return e.fleetErr
}
