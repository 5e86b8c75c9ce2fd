package laravel

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/internal/test/difftest"
)

const (
	callKey, failedKey = "troupe:laravel:call:a", "troupe:laravel:failed"
	queueA, queueB     = names("queues:a"), names("queues:b")
	row                = `{"id":"1","part":`
)

var (
	jobTexts = rapid.SampledFrom([]string{
		`{"job":"x","attempts":0}`, `{"job":"x","attempts":7,"delay":null}`, `{"attempts":"2","n":{"attempts":9},"l":[]}`,
		`{"job":"\"attempts\":5}","attempts":1}`, `{"job":"x","attempts":-1}`, `{"job":"x"}`, `[1]`, "junk", "\xff\x00\r\n", "",
	})
	copies = rapid.SampledFrom([]string{`{"job":"x","attempts":1}`, `{"job":"x","attempts":1} `, `{"job":"x","attempts":8,"delay":null}`, "gone"})
	// in the past, about now, and far away: "now" is 1000
	scores = rapid.SampledFrom([]string{"1", "999.5", "1000", "1000.000001", "9000000"})
)

// keysOf are the four keys of a queue.
func keysOf(q names) []string {
	return []string{string(q), string(q) + ":delayed", string(q) + ":reserved", string(q) + ":notify"}
}

// fillScripts draws what the keys hold.
func fillScripts(t *rapid.T) (writes [][]any) {
	do := func(args ...any) { writes = append(writes, args) }
	for _, q := range []names{queueA, queueB} {
		for i, key := range keysOf(q) {
			n := rapid.IntRange(-1, 4).Draw(t, key)
			if n < 0 {
				do("SET", key, "of the wrong type")
			}
			for range n {
				switch i {
				case 0:
					do("RPUSH", key, jobTexts.Draw(t, "job"))
				case 1:
					do("ZADD", key, scores.Draw(t, "score"), jobTexts.Draw(t, "job"))
				case 2:
					do("ZADD", key, scores.Draw(t, "score"), copies.Draw(t, "copy"))
				case 3:
					do("RPUSH", key, "1")
				}
			}
		}
	}
	if n := rapid.IntRange(0, 4).Draw(t, "last"); n > 0 {
		do("RPUSH", callKey, n, "m", "u", "0")
	}
	if rapid.Bool().Draw(t, "failed") {
		do("ZADD", failedKey, "5", row+"0}\njunk")
	}
	return writes
}

func drawOf(t *rapid.T, what string, of ...any) any { return rapid.SampledFrom(of).Draw(t, what) }

// scriptTries draw a call of each script as the code makes it.
var scriptTries = map[string]difftest.Try{
	"exchange": func(t *rapid.T) ([]string, []any) {
		keys := append([]string{callKey, failedKey}, string(queueB), string(queueB)+":notify")
		keys = append(append(keys, keysOf(queueA)...), keysOf(queueB)...)
		moves := rapid.IntRange(0, 3).Draw(t, "moves")
		args := []any{
			drawOf(t, "number", 1, 2, 3, 4, 5), drawOf(t, "known", "0", "1"), 3600, "1000.000000", "1030.000000",
			drawOf(t, "n", 0, 1, 3, 100), drawOf(t, "bytes", 1, 40, 1<<20), moves,
		}
		for range moves {
			args = append(args, drawOf(t, "kind", "a", "q", "b", "r", "d", "f"), drawOf(t, "queue", 0, 1), copies.Draw(t, "copy"),
				jobTexts.Draw(t, "text"), scores.Draw(t, "score"), drawOf(t, "trim", " ", "6 ", " 2", "6 2"))
		}
		for _, q := range rapid.SliceOfNDistinct(rapid.IntRange(0, 1), 0, 2, rapid.ID).Draw(t, "wants") {
			args = append(args, q, drawOf(t, "want", 0, 1, 20), drawOf(t, "paid", 0, 1, 2), row)
		}
		return keys, args
	},
	"renew": func(t *rapid.T) ([]string, []any) { return heldCall(t, 3600, "1030.000000") },
	"restore": func(t *rapid.T) ([]string, []any) {
		return heldCall(t, rapid.IntRange(0, 5).Draw(t, "number"), 3600, "1030.000000")
	},
	"push": func(t *rapid.T) ([]string, []any) {
		var args []any
		for _, job := range rapid.SliceOfN(jobTexts, 1, 3).Draw(t, "jobs") {
			args = append(args, job)
		}
		return []string{string(queueA), string(queueA) + ":notify"}, args
	},
	"again": func(t *rapid.T) ([]string, []any) {
		return []string{failedKey, string(queueA), string(queueA) + ":notify"}, []any{drawOf(t, "row", row+"0}\njunk", "none"), "junk"}
	},
}

// heldCall draws a call on jobs that may be reserved.
func heldCall(t *rapid.T, args ...any) ([]string, []any) {
	for _, job := range rapid.SliceOfN(copies, 0, 3).Draw(t, "held") {
		args = append(args, drawOf(t, "queue", 0, 1), job)
	}
	return []string{callKey, string(queueA) + ":reserved", string(queueB) + ":reserved"}, args
}

// TestScriptsAreTheSameOnMiniredis runs every script on random states: equal replies,
// equal keys.
func TestScriptsAreTheSameOnMiniredis(t *testing.T) {
	pair := difftest.New(t)
	files, err := lua.ReadDir("lua")
	if err != nil || len(files) != len(scriptTries) {
		t.Fatalf("%d scripts and %d tries, %v", len(files), len(scriptTries), err)
	}
	for name, try := range scriptTries {
		src, err := lua.ReadFile(fmt.Sprintf("lua/%s.lua", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { pair.Check(t, script.Bound+string(src), fillScripts, try) })
	}
}
