// Package difftest runs scripts on Redis and on the embedded server side by side:
// equal replies, equal keys. What a simulation on the embedded server shows then
// holds on Redis.
package difftest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/memredis"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// A test that imports this package tries so many states, unless it is told otherwise.
func init() { _ = flag.Set("rapid.checks", strconv.Itoa(harness.Effort(20, 100))) }

// Try draws the keys and arguments of one call of a script, as the package that
// owns it calls it.
type Try func(t *rapid.T) (keys []string, args []any)

// Pair is the two servers.
type Pair struct{ real, mini *redis.Client }

// New makes a pair for one test.
func New(t *testing.T) Pair {
	t.Helper()
	_, url := redistest.New(t)
	opt, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opt.Protocol = 2
	p := Pair{redis.NewClient(opt), redis.NewClient(memredis.New(t).Options())}
	t.Cleanup(func() {
		_ = p.real.Close()
		_ = p.mini.Close()
	})
	return p
}

// Check runs a script on random states, which the commands of fill make.
func (p Pair) Check(t *testing.T, src string, fill func(*rapid.T) [][]any, try Try) {
	t.Helper()
	script := script.New(t.Name(), src) // so that the embedded server takes it for one of this module
	rapid.Check(t, func(t *rapid.T) {
		writes := fill(t)
		keys, args := try(t)
		for try := 1; ; try++ {
			now := time.Now()
			differ := p.compare(t, now, script, writes, keys, args)
			if differ == "" {
				return
			}
			if time.Since(now) < time.Second || try == 5 { // else their times may be too far apart
				t.Fatal(differ)
			}
		}
	})
}

// compare runs a script once on both and tells what differs, "" for nothing.
func (p Pair) compare(t *rapid.T, now time.Time, script *script.Script, writes [][]any, keys []string, args []any) string {
	write(t, p.real, writes)
	write(t, p.mini, writes)
	before := dump(t, now, p.real)
	if other := dump(t, now, p.mini); before != other {
		return fmt.Sprintf("the states differ from the start:\n%s\n\n%s", before, other)
	}
	reply, err := script.Run(context.Background(), p.real, keys, args...).Result()
	want := plain(now, reply, err)
	reply, err = script.Run(context.Background(), p.mini, keys, args...).Result()
	differ := ""
	if got := plain(now, reply, err); got != want {
		differ += fmt.Sprintf("reply of miniredis: %s\nreply of redis: %s\n", got, want)
	}
	if want, got := dump(t, now, p.real), dump(t, now, p.mini); got != want {
		differ += fmt.Sprintf("keys of miniredis:\n%s\nkeys of redis:\n%s\n", got, want)
	}
	if differ != "" {
		differ += fmt.Sprintf("before:\n%s\n%v %q", before, keys, args)
	}
	return differ
}

func write(t *rapid.T, rdb *redis.Client, writes [][]any) {
	ctx := context.Background()
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.FlushDB(ctx)
		for _, args := range writes {
			pipe.Do(ctx, args...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// dump is every key of a database.
func dump(t *rapid.T, now time.Time, rdb *redis.Client) string {
	ctx := context.Background()
	names, err := rdb.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	kinds, ttls := make([]*redis.StatusCmd, len(names)), make([]*redis.DurationCmd, len(names))
	contents := make([]*redis.Cmd, len(names))
	_, err = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, name := range names {
			kinds[i], ttls[i] = pipe.Type(ctx, name), pipe.PTTL(ctx, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, name := range names {
			contents[i] = pipe.Do(ctx, map[string][]any{
				"string": {"GET", name}, "list": {"LRANGE", name, 0, -1}, "hash": {"HGETALL", name},
				"zset": {"ZRANGE", name, 0, -1, "WITHSCORES"}, "set": {"SMEMBERS", name},
			}[kinds[i].Val()]...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(names))
	for i, name := range names {
		kind := kinds[i].Val()
		list, _ := contents[i].Val().([]any)
		text := fmt.Sprintf("%q", contents[i].Val())
		switch kind {
		case "hash", "zset", "set":
			text = unordered(now, list, kind != "set")
		}
		out[i] = fmt.Sprintf("%s %s expires=%v %s", name, kind, ttls[i].Val() > 0, text)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// unordered prints members, or in pairs fields with values and members with
// scores, in any order.
func unordered(now time.Time, list []any, pairs bool) string {
	var out []string
	if !pairs {
		for _, v := range list {
			out = append(out, fmt.Sprintf("%q", v))
		}
	}
	for i := 0; pairs && i+1 < len(list); i += 2 {
		out = append(out, fmt.Sprintf("%q=%s", list[i], value(now, list[i+1])))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// value prints a number without a server's way to write it, and one around now
// in seconds or milliseconds, of which each server has its own, as the distance
// to now in steps of five seconds. What is left of a minute in ms is a minute.
func value(now time.Time, v any) string {
	text := fmt.Sprint(v)
	if words := strings.Split(text, " "); len(words) > 1 {
		for i, word := range words {
			words[i] = value(now, word)
		}
		return strings.Join(words, " ")
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) {
		return fmt.Sprintf("%q", text)
	}
	if n > 55e3 && n < 60e3 {
		n = 60e3
	}
	for _, ms := range []float64{n, n * 1000} {
		if ahead := ms - float64(now.UnixMilli()); ahead > -600e3 && ahead < 600e3 {
			return fmt.Sprint("now", 5*int(math.Round(ahead/5000)))
		}
	}
	return fmt.Sprint(n)
}

// plain brings replies into one form: of errors only what code looks at.
func plain(now time.Time, reply any, err error) string {
	for _, prefix := range []string{"FENCED", "NOTFENCED", "LATE", "STALE", "MISSING", "FOREIGN", "ALIVE"} {
		if redis.HasErrorPrefix(err, prefix) {
			return "error " + prefix
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return "error"
	}
	list, ok := reply.([]any)
	if !ok {
		list = []any{reply}
	}
	out := make([]string, len(list))
	for i, v := range list {
		if inner, ok := v.([]any); ok {
			out[i] = "[" + plain(now, inner, nil) + "]"
			continue
		}
		out[i] = fmt.Sprintf("%T %s", v, value(now, v))
		if s, ok := v.(string); ok && strings.Contains(s, "WRONGTYPE") {
			out[i] = "WRONGTYPE"
		}
	}
	return strings.Join(out, ", ")
}
