package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/internal/words"
	"github.com/troupehq/troupe/testkit/chaos"
)

// counted counts the lines that are printed.
type counted struct {
	lines int
	last  []byte
	file  *os.File // may be nil
}

func (c *counted) Write(p []byte) (int, error) {
	c.lines += bytes.Count(p, []byte("\n"))
	c.last = append(c.last[:0], p...)
	if c.file != nil {
		return c.file.Write(p)
	}
	return len(p), nil
}

// live is what the heap holds: the least of eight looks, since what is made during one counts, too, or the first
// that is at most enough. What is made after one does not count, as it would in MemStats: a command that needs no
// Redis goes on. Meanwhile Redis answers nobody, so that little is made.
func live(redis *chaos.Proxy, enough int) int {
	redis.Pause()
	defer redis.Resume()
	least := math.MaxInt
	for range 8 {
		heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		runtime.GC()
		metrics.Read(heap)
		if least = min(least, int(heap[0].Value.Uint64())); least <= enough {
			break
		}
	}
	return least
}

// No command holds the entries that it walks through: while it runs, what lives on the heap grows by
// a small part of them.
func TestManyEntriesAreNotHeld(t *testing.T) { // not parallel: the heap is that of all tests
	entries := harness.Effort(10_000, 25_000)
	if os.Getenv("TROUPE_LONG") != "" {
		entries = 200_000
	}
	rdb, _ := redistest.New(t)
	proxy := chaos.NewProxy(t, rdb.Options())
	url := fmt.Sprintf("redis://%s/%d", proxy.Listen(), rdb.Options().DB)
	const seed = `for i = 1, tonumber(ARGV[1]) do
		local job = '{"retry":true,"queue":"big","class":"Big","args":["' .. string.rep('x', 200) .. '",' .. i .. '],"jid":"j' .. i .. '","created_at":1795225014.5,"error_class":"E","error_message":"boom"}'
		redis.call('ZADD', 'dead', 1795000000 + i, job)
		redis.call('LPUSH', 'queue:big', job)
	end
	redis.call('SADD', 'queues', 'big')`
	if err := rdb.Eval(t.Context(), seed, nil, entries).Err(); err != nil && !strings.Contains(err.Error(), "nil") {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		line, into string
		lines      int // that are printed
		last       string
	}{
		{"jobs list dead --limit 0", "", entries, ""},
		{"jobs list queue:big --limit 0 --json", "", entries, ""},
		{"jobs export dead --args show", file("dead"), entries, ""},
		{"jobs export queue:big --args show", file("queue"), entries, ""},
		{"jobs delete dead --error boom --dry-run", "", 11, ""},
		{"jobs import " + file("dead") + " --dry-run", "", 1, words.Count(entries) + " jobs would be imported\n"},
		{"jobs import " + file("queue") + " --yes --rate 0", "", 1, "imported: 0 done, " + words.Count(entries) + " gone, 0 stopped, 0 left\n"},
		{"explain j1", "", 5, "Searched: running, in progress, retry, scheduled, dead\n"},
	} {
		var out counted
		if c.into != "" {
			f := harness.Must(os.Create(c.into))(t)
			defer f.Close()
			out.file = f
		}
		bound := 4<<20 + 100*entries // an entry has 340 bytes in Redis, and a kilobyte when it is read
		before, most := live(proxy, 0), 0
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() {
			root := rootCommand()
			root.SetOut(&out)
			ended <- execute(ctx, root, append(strings.Fields(c.line), "--redis", url))
		}()
		code := -1
		for code < 0 {
			select {
			case code = <-ended:
			case <-time.After(50 * time.Millisecond): // in which Redis answers
				most = max(most, live(proxy, before+bound/2)-before)
			}
		}
		cancel()
		if code != 0 || out.lines != c.lines || c.last != "" && string(out.last) != c.last {
			t.Errorf("%s: exit code %d, %d lines, the last %q; expected %d, %q", c.line, code, out.lines, out.last, c.lines, c.last)
		}
		t.Logf("%s: %d bytes", c.line, most)
		if most > bound {
			t.Errorf("%s: it holds %d bytes, expected at most %d for %d entries", c.line, most, bound, entries)
		}
	}
}
