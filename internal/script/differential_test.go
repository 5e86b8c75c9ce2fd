package script_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/internal/test/difftest"
)

const (
	setA, setB, dead      = "retry", "schedule", "dead"
	listA, listB          = "queue:a", "queue:b"
	names, processes      = "queues", "processes"
	lock1, lock2          = "troupe:poller", "troupe:poller:standby"
	receipt               = "troupe:flushed:h:1:aa"
	total1, total2        = "stat:processed", "stat:failed"
	day1, day2            = "stat:processed:2026-01-02", "stat:failed:2026-01-02"
	hash                  = "j|260102|3:4"
	marker                = "troupe:pushed:x"
	clockSet, clockMoving = "clock:set", "clock:moving"
	entry, entryMarks     = "cron_job:n", "cron_job:n:enqueued"
)

var (
	members = rapid.SampledFrom([]string{"x", "y", `{"class":"A","args":[1e3]}`, "\x00\xff\r\n", "z", `{"t_lock":{}}`})
	holders = rapid.SampledFrom([]string{"me", "other"})
	scores  = rapid.SampledFrom([]string{"1", "2", "3.5", "1795225036.2125871"})
	numbers = rapid.IntRange(0, 5)
)

// some draws up to n distinct members.
func some(t *rapid.T, n int) []string {
	return rapid.SliceOfNDistinct(members, 0, n, rapid.ID).Draw(t, "members")
}

func add(args []any, more ...string) []any {
	for _, m := range more {
		args = append(args, m)
	}
	return args
}

// trims are bounds of a dead set, as limits.Trim writes them.
var trims = []string{" ", "1 ", " 1", " 3", "1 3"}

// scriptTries are the keys and arguments with which each script is tried: as the
// package that owns it calls it, on whatever the keys hold.
var scriptTries = map[string]difftest.Try{
	"actors/internal/sched/due": func(t *rapid.T) ([]string, []any) { // the clock is in the answer: nobody asks for less than a second
		args := []any{
			rapid.SampledFrom([]string{"me", "other", ""}).Draw(t, "who"), rapid.SampledFrom([]int{0, 1500}).Draw(t, "life"), 3000,
			rapid.SampledFrom([]string{"0", "0.5"}).Draw(t, "ahead"), rapid.IntRange(0, 4).Draw(t, "count"),
			rapid.SampledFrom([]int{1, 30, 1000}).Draw(t, "bytes"), rapid.IntRange(0, 2).Draw(t, "skip"),
			rapid.SampledFrom([]string{"0", "1"}).Draw(t, "order"),
		}
		keys := []string{lock1, lock2, setA, setB}[:rapid.IntRange(2, 4).Draw(t, "keys")]
		for range keys[2:] {
			args = append(args, rapid.SampledFrom([]string{"-inf", "1", "(1", "(3.5"}).Draw(t, "from"))
		}
		return keys, args
	},
	"internal/periodic/tick": func(t *rapid.T) ([]string, []any) { // the year 2286 is to come
		keys := []string{entry, entryMarks, listB, names, listA}[:rapid.SampledFrom([]int{3, 5}).Draw(t, "keys")]
		tick := rapid.SampledFrom([]string{"2001-09-09T01:46:40Z 1000000000", "2017-07-14T02:40:00Z 1500000000", "2286-11-20T17:46:40Z 10000000000"}).Draw(t, "tick")
		mark, seconds, _ := strings.Cut(tick, " ")
		lock := []any(nil)
		if len(keys) == 5 && rapid.Bool().Draw(t, "locks") {
			keys, lock = append(keys, lock1, hash), []any{"me", 60000, `{"what":"overlapped"}`, 3}
		}
		if len(keys) >= 5 && rapid.Bool().Draw(t, "shared") {
			if lock == nil {
				keys, lock = append(keys, entry, entry), []any{"", 0, "", 0}
			}
			keys, lock = append(keys, clockSet, hash), append(lock, "n", rapid.SampledFrom([]string{"", "", "other"}).Draw(t, "state"))
		}
		return keys, append([]any{
			rapid.SampledFrom([]string{"enabled", "enabled", ""}).Draw(t, "status"), "", "", mark, seconds,
			rapid.SampledFrom([]string{"", "job"}).Draw(t, "job"), "a", "2017-07-14 02:40:00 +0000", `{"jid":"x"}`, `{"what":"pushed"}`,
		}, lock...)
	},
	"internal/periodic/push": func(t *rapid.T) ([]string, []any) {
		return []string{total1, listA}, []any{rapid.IntRange(1, 3).Draw(t, "number"), "job", 60000}
	},
	"actors/internal/sched/unread": func(t *rapid.T) ([]string, []any) {
		keys := []string{setA, names, dead}
		if rapid.Bool().Draw(t, "cluster") {
			keys = []string{setA, clockMoving}
		}
		size := len(members.Draw(t, "member"))
		return keys, []any{rapid.SampledFrom([]string{"-inf", "(1"}).Draw(t, "from"), rapid.IntRange(0, 2).Draw(t, "skip"), size, 60000, "7", "1 3"}
	},
	"actors/internal/sched/move": func(t *rapid.T) ([]string, []any) {
		keys, args := []string{setA, names, dead}, []any{"7", fmt.Sprint("1 ", rapid.IntRange(1, 5).Draw(t, "limit"))}
		for _, what := range []string{"to dead", "dropped"} {
			some := some(t, 3)
			args = add(append(args, len(some)), some...)
			for i := 0; what == "to dead" && i < len(some); i++ {
				args = append(args, rapid.SampledFrom([]string{some[i], "kept " + some[i]}).Draw(t, "text"))
			}
		}
		for _, name := range []string{"a", "b"}[:rapid.IntRange(0, 2).Draw(t, "queues")] {
			some := some(t, 4)
			keys = append(keys, "queue:"+name)
			args = add(append(args, name, len(some)), some...)
			for i := range some {
				args = append(args, fmt.Sprint("new ", i))
			}
		}
		return keys, args
	},
	"internal/job/joinbatch": func(t *rapid.T) ([]string, []any) {
		args := []any{rapid.IntRange(1, 3).Draw(t, "number"), 60000, rapid.SampledFrom([]string{"", "B2", "B3"}).Draw(t, "parent"), rapid.SampledFrom([]string{"", "open", "close"}).Draw(t, "how")}
		return []string{"troupe:batch:B1", total1}, append(args, difftest.JoinBatch(t)...)
	},
	"internal/job/countbatch": func(t *rapid.T) ([]string, []any) {
		args := []any{rapid.SampledFrom(difftest.Batches).Draw(t, "batch"), rapid.SampledFrom([]string{"ran", "done", "died", "close", "cancel"}).Draw(t, "event")}
		for _, index := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 3, rapid.ID).Draw(t, "indexes") {
			args = append(args, index)
		}
		return []string{"troupe:batch:B1"}, args
	},
	"internal/beat/flush": func(t *rapid.T) ([]string, []any) {
		return []string{receipt, total1, day1, total2, day2},
			[]any{numbers.Draw(t, "batch"), 86400, numbers.Draw(t, "processed"), numbers.Draw(t, "failed"), 157680000}
	},
	"internal/beat/metrics": func(t *rapid.T) ([]string, []any) {
		keys, args := []string{receipt}, []any{numbers.Draw(t, "batch"), 86400}
		for range rapid.IntRange(0, 3).Draw(t, "writes") { // miniredis has no BITFIELD
			keys = append(keys, rapid.SampledFrom([]string{hash, hash + "x"}).Draw(t, "key"))
			n := rapid.IntRange(0, 3).Draw(t, "fields")
			args = append(args, "HINCRBY", 28800, 2*n)
			for i := range n {
				args = append(args, fmt.Sprint("A|", i), numbers.Draw(t, "n"))
			}
		}
		return keys, args
	},
	"inspect/kill": func(t *rapid.T) ([]string, []any) {
		from := rapid.SampledFrom([]string{setA, dead}).Draw(t, "from")
		args := []any{"7", rapid.SampledFrom(trims).Draw(t, "trim")}
		some := some(t, 4)
		args = append(args, len(some))
		for _, m := range some {
			args = append(args, m, rapid.SampledFrom([]string{"", "kept " + m}).Draw(t, "text"))
		}
		names := []string{from, dead}
		for i := range rapid.IntRange(0, len(some)).Draw(t, "locks") {
			names = append(names, rapid.SampledFrom([]string{lock1, lock2}).Draw(t, "lock"))
			args = append(args, i+1, holders.Draw(t, "jid"))
		}
		return names, args
	},
	"internal/job/letin": func(t *rapid.T) ([]string, []any) {
		how := rapid.SampledFrom([]string{"due", "force", "back", "rest"}).Draw(t, "how")
		args := []any{"troupe:", rapid.SampledFrom([]int{0, 1, 3, 100}).Draw(t, "most"), how}
		if how == "rest" {
			args = append(args, rapid.SampledFrom(difftest.Rules).Draw(t, "rule"), rapid.SampledFrom([]string{"0", "2.5", "60"}).Draw(t, "seconds"))
		} else if how != "due" {
			args = add(args, rapid.SliceOfNDistinct(rapid.SampledFrom(difftest.Rules), 1, 3, rapid.ID).Draw(t, "rules")...)
		}
		return []string{"troupe:held"}, args
	},
	"internal/job/define": func(t *rapid.T) ([]string, []any) {
		text := rapid.SampledFrom([]string{"1", "5 2", "3 throttled"}).Draw(t, "text")
		how := rapid.SampledFrom([]string{"start", "keep", "set", "reset"}).Draw(t, "how")
		if how == "reset" {
			text = ""
		}
		return []string{hash}, []any{how, "A|0", text, "B", text}
	},
	"inspect/remove": func(t *rapid.T) ([]string, []any) {
		from := rapid.SampledFrom([]string{"set", "head", "tail"}).Draw(t, "from")
		names, args := []string{map[bool]string{true: setA, false: listA}[from == "set"]}, []any{from}
		for _, m := range some(t, 3) {
			names = append(names, rapid.SampledFrom([]string{lock1, lock2}).Draw(t, "lock"))
			args = append(args, m, holders.Draw(t, "jid"))
		}
		return names, args
	},
	"inspect/read": func(t *rapid.T) ([]string, []any) { // the order of scan and hash is the server's own
		where := rapid.SampledFrom([]string{"head", "tail", "low", "high", "up", "down"}).Draw(t, "where")
		key, first := setA, strconv.Itoa(rapid.IntRange(0, 4).Draw(t, "first"))
		switch where {
		case "head", "tail":
			key = listA
		case "up":
			first = rapid.SampledFrom([]string{"-Inf", "1", "3.5"}).Draw(t, "score")
		case "down":
			first = rapid.SampledFrom([]string{"+Inf", "1", "3.5"}).Draw(t, "score")
		}
		return []string{key}, []any{where, 3, 1, rapid.SampledFrom([]int{1, 100}).Draw(t, "bytes"), rapid.IntRange(0, 2).Draw(t, "least"), first, rapid.IntRange(1, 5).Draw(t, "count"), ""}
	},
	"inspect/move": func(t *rapid.T) ([]string, []any) {
		job := members.Draw(t, "job")
		if rapid.Bool().Draw(t, "dead") {
			names, args := []string{listA, dead}, []any{job, "kept " + job, "7", rapid.SampledFrom(trims).Draw(t, "trim")}
			if rapid.Bool().Draw(t, "unique") {
				names, args = append(names, lock1), append(args, holders.Draw(t, "jid"))
			}
			return names, args
		}
		return []string{listA, "queue:b", names}, []any{job, "new " + job, "b"}
	},
	"inspect/enqueue": func(t *rapid.T) ([]string, []any) {
		keys, jobs, n := []string{setA, names}, []any{}, 0
		queues := []string{"a", "b"}[:rapid.IntRange(0, 2).Draw(t, "queues")]
		for _, name := range queues {
			keys = append(keys, "queue:"+name)
			some := some(t, 4)
			jobs = append(jobs, name, len(some))
			for _, m := range some {
				jobs, n = append(jobs, m, "new "+m), n+1
			}
		}
		args := []any{len(queues)}
		for i := range rapid.IntRange(0, n).Draw(t, "locks") {
			keys = append(keys, rapid.SampledFrom([]string{lock1, lock2}).Draw(t, "lock"))
			args = append(args, i+1, holders.Draw(t, "jid"), 60000)
		}
		return keys, append(args, jobs...)
	},
	"client/pushonce": func(t *rapid.T) ([]string, []any) {
		keys, args := []string{marker, names, listA}, []any{rapid.IntRange(1, 4).Draw(t, "batch"), 86400000}
		for range rapid.IntRange(0, 3).Draw(t, "writes") {
			if rapid.Bool().Draw(t, "list") {
				some := append(some(t, 2), members.Draw(t, "one more"))
				args = add(append(args, 2+len(some), "LPUSH", listA), some...)
			} else {
				args = append(args, 3, "SADD", names, "a")
			}
		}
		return keys, args
	},
	"client/unique": func(t *rapid.T) ([]string, []any) {
		keys, args := []string{names, setA, hash, "lock:1", "lock:2", listA}, []any(nil)
		for range rapid.IntRange(1, 4).Draw(t, "jobs") {
			queue := rapid.SampledFrom([]any{"", 6}).Draw(t, "queue")
			score := ""
			if queue == "" {
				score = "2.5"
			}
			args = append(args, rapid.IntRange(4, 5).Draw(t, "lock"), rapid.SampledFrom([]string{"j1", "j2"}).Draw(t, "jid"), 60000, queue, "a", score, members.Draw(t, "job"), rapid.SampledFrom([]any{"", 1}).Draw(t, "noted"))
		}
		return keys, args
	},
	"internal/job/locks": func(t *rapid.T) ([]string, []any) {
		var args []any
		for range 2 {
			args = append(args, rapid.SampledFrom([]string{"", "1", "2", "x"}).Draw(t, "jid"), rapid.SampledFrom([]int{0, 60000}).Draw(t, "ms"))
		}
		return []string{lock1, lock2}, args
	},
	"client/debounce": func(t *rapid.T) ([]string, []any) {
		text := rapid.SampledFrom([]string{"x", "z"}).Draw(t, "text")
		return []string{setA, hash}, []any{
			rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "number"), rapid.SampledFrom([]string{`"j1"`, `"j2"`}).Draw(t, "jid"), "1795225036.2125871",
			rapid.SampledFrom([]string{"1795225036.2125871", "1795225041.5"}).Draw(t, "score"), rapid.SampledFrom([]string{"0", "1", "0.5"}).Draw(t, "max"),
			text, rapid.SampledFrom([]string{"", "y"}).Draw(t, "behind"), 600000,
		}
	},
	"internal/beat/oldest": func(t *rapid.T) ([]string, []any) {
		return []string{rapid.SampledFrom([]string{listA, setA}).Draw(t, "key")},
			[]any{rapid.SampledFrom([]int{1, 4, 1000}).Draw(t, "long"), rapid.IntRange(1, 30).Draw(t, "end")}
	},
	"internal/moving/claim": func(t *rapid.T) ([]string, []any) {
		return []string{setA, clockMoving}, add([]any{60000}, some(t, 4)...)
	},
	"internal/moving/finish": func(t *rapid.T) ([]string, []any) {
		arrived := some(t, 3)
		args := add([]any{len(arrived)}, arrived...)
		for _, m := range some(t, 3) {
			args = append(args, scores.Draw(t, "score"), m)
		}
		return []string{setA, setB}, args
	},
	"internal/moving/abandoned": func(*rapid.T) ([]string, []any) {
		return []string{clockSet, clockMoving}, nil
	},
	"inspect/clear": func(t *rapid.T) ([]string, []any) {
		args := []any{rapid.IntRange(0, 4).Draw(t, "count"), rapid.SampledFrom([]int{1, 1000}).Draw(t, "bytes"), "a"}
		if rapid.Bool().Draw(t, "set") {
			return []string{setA}, append([]any{"set"}, args...)
		}
		return []string{listA, names}, append([]any{"tail"}, args...)
	},
}

// fill draws what the keys hold.
func fill(t *rapid.T) (writes [][]any) {
	do := func(args ...any) { writes = append(writes, args) }
	for _, key := range []string{setA, setB, dead, listA, listB, names, processes, lock1, lock2, receipt, total1, total2, day1, day2, hash, marker, clockSet, clockMoving, entry, entryMarks} {
		switch rapid.IntRange(0, 9).Draw(t, key) {
		case 0, 1: // absent
			continue
		case 2:
			do("RPUSH", key, "of the wrong type, mostly")
			continue
		}
		switch key {
		case setA, setB, dead:
			for range rapid.IntRange(1, 5).Draw(t, "entries") {
				do("ZADD", key, scores.Draw(t, "score"), members.Draw(t, "member"))
			}
		case clockSet, clockMoving: // over, or far from it
			for range rapid.IntRange(1, 5).Draw(t, "entries") {
				do("ZADD", key, rapid.SampledFrom([]string{"1", "9000000000000000"}).Draw(t, "score"), members.Draw(t, "member"))
			}
		case entry:
			do("HSET", key, "status", rapid.SampledFrom([]string{"enabled", "disabled"}).Draw(t, "status"))
		case entryMarks:
			do("ZADD", key, 1, "1970-01-01T00:00:01Z", 1000000000, "2001-09-09T01:46:40Z")
		case marker:
			do("SET", key, rapid.SampledFrom([]string{"2\n", "3\n0 ERR no\n"}).Draw(t, "done"))
		case listA, listB:
			do("LPUSH", key, members.Draw(t, "job"))
		case names, processes:
			do("SADD", key, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"))
		case lock1, lock2:
			do("SET", key, rapid.SampledFrom([]string{"me", "other"}).Draw(t, "holder"), "PX", 60000)
		case hash:
			do("HSET", key, "A|0", numbers.Draw(t, "n"))
		default:
			do("SET", key, numbers.Draw(t, "n"))
		}
	}
	return writes
}

// TestScriptsAreTheSameOnMiniredis runs every script on random states: equal
// replies, equal keys. What a simulation on the embedded server shows then holds
// on Redis. Those of packages fetch, which tries those of rescue, and laravel have tests of their own there.
func TestScriptsAreTheSameOnMiniredis(t *testing.T) {
	pair := difftest.New(t)
	root := filepath.Join("..", "..")
	tried := 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		name, isLua := strings.CutSuffix(filepath.ToSlash(rel), ".lua")
		if err != nil || !isLua || strings.HasPrefix(name, "fetch/lua/") || strings.HasPrefix(name, "internal/rescue/lua/") || name == "internal/script/put" || strings.HasPrefix(name, "wire/laravel/lua/") || name == "internal/script/bound" || name == "internal/script/unlock" || name == "internal/job/rules" || name == "internal/job/batch" { // heads of others
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		try := scriptTries[name]
		if try == nil {
			t.Errorf("script %s is not tried", name)
			return nil
		}
		tried++
		whole, full := script.Bound+script.Unlock+string(src), fill
		if name == "internal/job/letin" {
			whole, full = difftest.FixedClock(job.LetInSource()), func(t *rapid.T) [][]any { return append(fill(t), difftest.FillLimits(t)...) }
		}
		if strings.HasSuffix(name, "batch") {
			heads := map[string]string{"internal/job/joinbatch": job.JoinSource(), "internal/job/countbatch": job.CountSource()}
			whole, full = difftest.FixedClock(heads[name]), func(t *rapid.T) [][]any { return append(fill(t), difftest.FillBatches(t)...) }
		}
		t.Run(name, func(t *testing.T) { pair.Check(t, whole, full, try) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if tried != len(scriptTries) {
		t.Errorf("%d of %d tries have a script", tried, len(scriptTries))
	}
}
