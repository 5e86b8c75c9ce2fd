package script_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/redistest"
)

const (
	setA, setB, dead = "retry", "schedule", "dead"
	listA, listB     = "queue:a", "queue:b"
	names, processes = "queues", "processes"
	seat1, seat2     = "troupe:poller", "troupe:poller:standby"
	receipt          = "troupe:flushed:h:1:aa"
	total1, total2   = "stat:processed", "stat:failed"
	day1, day2       = "stat:processed:2026-01-02", "stat:failed:2026-01-02"
	hash             = "j|260102|3:4"
	marker           = "troupe:pushed:x"
	// Scores by the server's clock, of which the two have one each: only the
	// members are compared.
	clockSet, clockMoving = "clock:set", "clock:moving"
)

var (
	members = rapid.SampledFrom([]string{"x", "y", `{"class":"A","args":[1e3]}`, "\x00\xff\r\n", "z", "w"})
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

// scriptTries are the keys and arguments with which each script is tried: as the
// package that owns it calls it, on whatever the keys hold.
var scriptTries = map[string]func(t *rapid.T) (keys []string, args []any){
	"sched/look": func(t *rapid.T) ([]string, []any) {
		return []string{setA, setB, processes}[:rapid.IntRange(2, 3).Draw(t, "keys")], nil
	},
	"sched/seat": func(t *rapid.T) ([]string, []any) { // nobody is subscribed: in doubt of nothing
		return []string{seat1, seat2, processes}, []any{
			rapid.SampledFrom([]string{"me", "other"}).Draw(t, "who"), 5000, "channel:",
			rapid.SampledFrom([]string{"look", "take", "leave"}).Draw(t, "verb"),
		}
	},
	"sched/promote": func(t *rapid.T) ([]string, []any) {
		keys, args := []string{setA, names, dead}, []any{"7", "1", rapid.IntRange(1, 5).Draw(t, "limit")}
		for range 2 { // to dead, dropped
			some := some(t, 3)
			args = add(append(args, len(some)), some...)
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
	"inspect/bury": func(t *rapid.T) ([]string, []any) {
		from := rapid.SampledFrom([]string{setA, dead}).Draw(t, "from")
		args := []any{"7", rapid.SampledFrom([]string{"", "1"}).Draw(t, "oldest"), rapid.SampledFrom([]string{"", "1", "3"}).Draw(t, "limit")}
		return []string{from, dead}, add(args, some(t, 4)...)
	},
	"inspect/enqueue": func(t *rapid.T) ([]string, []any) {
		keys, args := []string{setA, names}, []any{}
		for _, name := range []string{"a", "b"}[:rapid.IntRange(0, 2).Draw(t, "queues")] {
			keys = append(keys, "queue:"+name)
			some := some(t, 4)
			args = append(args, name, len(some))
			for _, m := range some {
				args = append(args, m, "new "+m)
			}
		}
		return keys, args
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
	"sched/seat_cluster": func(t *rapid.T) ([]string, []any) {
		return []string{seat1}, []any{"me", rapid.SampledFrom([]string{"0", "5000"}).Draw(t, "lease")}
	},
	"inspect/page": func(t *rapid.T) ([]string, []any) {
		return []string{setA}, []any{
			rapid.SampledFrom([]string{"up", "down"}).Draw(t, "way"), scores.Draw(t, "score"),
			rapid.OneOf(rapid.Just(""), members).Draw(t, "member"), rapid.IntRange(1, 4).Draw(t, "n"),
		}
	},
}

// fill draws what the keys hold and writes it to every server.
func fill(t *rapid.T, servers ...*redis.Client) {
	var writes [][]any
	do := func(args ...any) { writes = append(writes, args) }
	for _, key := range []string{setA, setB, dead, listA, listB, names, processes, seat1, seat2, receipt, total1, total2, day1, day2, hash, marker, clockSet, clockMoving} {
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
		case marker:
			do("SET", key, rapid.SampledFrom([]string{"2\n", "3\n0 ERR no\n"}).Draw(t, "done"))
		case listA, listB:
			do("LPUSH", key, members.Draw(t, "job"))
		case names, processes:
			do("SADD", key, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"))
		case seat1, seat2:
			do("SET", key, rapid.SampledFrom([]string{"me", "other"}).Draw(t, "holder"), "PX", 60000)
		case hash:
			do("HSET", key, "A|0", numbers.Draw(t, "n"))
		default:
			do("SET", key, numbers.Draw(t, "n"))
		}
	}
	for _, rdb := range servers {
		_, err := rdb.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			p.FlushDB(context.Background())
			for _, w := range writes {
				p.Do(context.Background(), w...)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// dump is every key of a database.
func dump(t *rapid.T, rdb *redis.Client) string {
	ctx := context.Background()
	all, err := rdb.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(all)
	kinds, ttls := make([]*redis.StatusCmd, len(all)), make([]*redis.DurationCmd, len(all))
	contents := make([]*redis.Cmd, len(all))
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range all {
			kinds[i], ttls[i] = p.Type(ctx, key), p.PTTL(ctx, key)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range all {
			if strings.HasPrefix(key, "clock:") && kinds[i].Val() == "zset" {
				contents[i] = p.Do(ctx, "ZRANGE", key, 0, -1)
				continue
			}
			contents[i] = p.Do(ctx, map[string][]any{
				"string": {"GET", key}, "list": {"LRANGE", key, 0, -1}, "hash": {"HGETALL", key},
				"zset": {"ZRANGE", key, 0, -1, "WITHSCORES"}, "set": {"SMEMBERS", key},
			}[kinds[i].Val()]...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(all))
	for i, key := range all {
		content := strings.Split(plain(contents[i].Result()), ", ")
		switch kinds[i].Val() {
		case "set":
			sort.Strings(content)
		case "hash": // fields with their values
			var pairs []string
			for pair := range slices.Chunk(content, 2) {
				pairs = append(pairs, strings.Join(pair, "="))
			}
			sort.Strings(pairs)
			content = pairs
		}
		out[i] = fmt.Sprintf("%s %s expires=%v %s", key, kinds[i].Val(), ttls[i].Val() > 0, content)
	}
	return strings.Join(out, "\n")
}

// plain brings replies into one form: of errors only that they are some, and
// scores without the two servers' ways to write them.
func plain(reply any, err error) string {
	if err != nil && !errors.Is(err, redis.Nil) {
		return "error"
	}
	list, ok := reply.([]any)
	if !ok {
		list = []any{reply}
	}
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = fmt.Sprintf("%T %q", v, fmt.Sprint(v))
		s, ok := v.(string)
		if ok && strings.Contains(s, "WRONGTYPE") {
			out[i] = "WRONGTYPE"
		}
		if score, err := strconv.ParseFloat(s, 64); ok && err == nil {
			out[i] = fmt.Sprint(score)
		}
	}
	return strings.Join(out, ", ")
}

// TestScriptsAreTheSameOnMiniredis runs every script on random states: equal
// replies, equal keys. What a simulation on the embedded server shows then holds
// on Redis. Those of package fetch have a test of their own there.
func TestScriptsAreTheSameOnMiniredis(t *testing.T) {
	_, url := redistest.New(t)
	opt, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opt.Protocol = 2
	real := redis.NewClient(opt)
	t.Cleanup(func() { _ = real.Close() })
	mini := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), Protocol: 2})
	t.Cleanup(func() { _ = mini.Close() })

	root := filepath.Join("..", "..")
	tried := 0
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		name, isLua := strings.CutSuffix(filepath.ToSlash(rel), ".lua")
		if err != nil || !isLua || strings.HasPrefix(name, "fetch/") {
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
		t.Run(name, func(t *testing.T) { same(t, string(src), try, real, mini) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if tried != len(scriptTries) {
		t.Errorf("%d of %d tries have a script", tried, len(scriptTries))
	}
}

func same(t *testing.T, src string, try func(*rapid.T) ([]string, []any), real, mini *redis.Client) {
	s := redis.NewScript(src)
	rapid.Check(t, func(t *rapid.T) {
		fill(t, real, mini)
		keys, args := try(t)
		before := dump(t, real)
		if other := dump(t, mini); before != other {
			t.Fatalf("the states differ from the start:\n%s\n\n%s", before, other)
		}
		reply, err := s.Run(context.Background(), real, keys, args...).Result()
		want := plain(reply, err)
		reply, err = s.Run(context.Background(), mini, keys, args...).Result()
		if got := plain(reply, err); got != want {
			t.Errorf("reply of miniredis: %s\nreply of redis: %s", got, want)
		}
		if want, got := dump(t, real), dump(t, mini); got != want {
			t.Errorf("keys of miniredis:\n%s\nkeys of redis:\n%s", got, want)
		}
		if t.Failed() {
			t.Logf("before:\n%s\n%q %q", before, keys, args)
		}
	})
}
