package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// nested is an array in arrays: depth levels in all.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func job(class, args, jid, more string) string {
	return fmt.Sprintf(`{"retry":true,"queue":"default","class":%q,"args":%s,"jid":%q,"created_at":1795224881.1,"enqueued_at":1795224881.2%s}`,
		class, args, jid, more)
}

// keptAsJob reports whether JSON that is no object is in dead, in the form that
// Sidekiq can show.
func keptAsJob(dead []string, raw string) bool {
	return slices.ContainsFunc(dead, func(d string) bool {
		return strings.Contains(d, `"class":"Troupe::NotAJob","args":[`+mustJSON(raw)+`],`)
	})
}

// Whatever stands in a queue ends where the contract says; nothing is lost, and
// the jobs behind it go on.
func TestOddBytesInAQueue(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	p := startWorker(t, workerSpec{Redis: url, Records: rec.url, Capsules: []capsuleSpec{{Concurrency: 3, Queues: []string{"broken", "default"}}}})
	dead := []string{
		"no JSON", "", "[1", `{"class":"Record"`, "\ufeff" + job("Record", "[]", "bom", ""),
		job("Record", "[NaN]", "nan", ""), job("Record", "[]", "tail", "") + " x", job("Record", nested(100), "deep", ""),
	}
	noObject := []string{"[1]", `"text"`, "5", "null"}
	runs := map[string]string{ // jid -> bytes
		"deep99":  job("Record", nested(99), "deep99", ""),
		"utf8":    job("Record", "[\"\xff\xfe\"]", "utf8", ""),
		"huge":    job("Record", `["`+strings.Repeat("x", 5<<20)+`"]`, "huge", ""),
		"noargs":  `{"class":"Record","jid":"noargs"}`,
		"oddargs": `{"class":"Record","args":{"a":1},"jid":"oddargs","retry":"x","queue":7}`,
		"twice":   `{"class":"Fail","class":"Record","args":[],"jid":"twice"}`,
	}
	retried := []string{
		job("Fail", "[]", "r1", `,"retry_count":"2","failed_at":"x"`), job("Fail", "[]", "r2", `,"retry_count":-1`),
		job("Fail", "[\"\xff\"]", "r3", ""), job("Nobody", "[]", "r4", ""), `{"args":[],"jid":"r5"}`, `{"class":7,"args":[],"jid":"r6"}`,
		`{"class":"Fail","jid":"r7"}`, job("Boom", "[]", "r8", `,"backtrace":true,"tags":5,"retry_for":"soon"`),
	}
	if err := rdb.Set(t.Context(), "queue:broken", "a key of the wrong type", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, raw := range slices.Concat(dead, noObject, retried) {
		rdb.LPush(t.Context(), "queue:default", raw)
	}
	for _, raw := range runs {
		rdb.LPush(t.Context(), "queue:default", raw)
	}
	testkit.Await(t, "the queue is empty", func() bool {
		return rdb.Exists(t.Context(), "queue:default").Val() == 0 && len(private(t, rdb)) == 0
	})
	got := rdb.ZRange(t.Context(), "dead", 0, -1).Val()
	for _, raw := range dead {
		if !slices.Contains(got, raw) {
			t.Errorf("not in the dead set as it was: %.100q", raw)
		}
	}
	for _, raw := range noObject {
		if !keptAsJob(got, raw) {
			t.Errorf("not in the dead set as a job that shows it: %s", raw)
		}
	}
	dead = append(dead, noObject...)
	entries := rdb.ZRange(t.Context(), "retry", 0, -1).Val()
	for i := range retried {
		jid := fmt.Sprintf(`"jid":"r%d"`, i+1)
		n := 0
		for _, e := range slices.Concat(entries, got) {
			if strings.Contains(e, jid) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is %d times in retry and dead, want once: %.200q", jid, n, retried[i])
		}
	}
	if len(got) < len(dead) || len(got)+len(entries) != len(dead)+len(retried) {
		t.Errorf("%d dead, %d retries; want %d and %d\n%.300q", len(got), len(entries), len(dead), len(retried), got)
	}
	runs["oddargs"] = strings.Replace(runs["oddargs"], `{"a":1}`, `[{"a":1}]`, 1) // handlers see one argument
	for jid, raw := range runs {
		e := rec.find("start", jid)
		if len(e) != 1 || jid != "utf8" && e[0].Payload != raw {
			t.Errorf("%s ran %d times: %.300v", jid, len(e), e)
		}
	}
	if text := p.Stderr(); strings.Contains(text, "launcher/default/fetcher\",\"directive") {
		t.Errorf("the fetcher crashed: %s", text)
	}
	p.Stop(soon)
}

// The same for members of the two sets: one that is no job does not stop those
// behind it.
func TestOddMembersOfTheSets(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	odd := []string{"no JSON", "[1]"}
	// What would run from a queue runs from a set, too, by the same rules.
	runs := map[string]string{"schedule": `{"class":"Record","jid":"noargs"}`, "retry": `{"args":[],"jid":"noclass"}`}
	for _, set := range []string{"schedule", "retry"} {
		for i, raw := range odd {
			rdb.ZAdd(t.Context(), set, redis.Z{Score: float64(i + 1), Member: set + raw})
			rdb.ZAdd(t.Context(), set, redis.Z{Score: float64(i + 1), Member: raw})
		}
		rdb.ZAdd(t.Context(), set, redis.Z{Score: 50, Member: runs[set]})
		rdb.ZAdd(t.Context(), set, redis.Z{Score: 100, Member: job("Record", `["é",1.10]`, set, "")})
	}
	startWorker(t, workerSpec{Redis: url, Records: rec.url})
	for _, set := range []string{"schedule", "retry"} {
		if e := rec.await(soon, 1, "start", set)[0]; e.Args != `["é",1.10]` {
			t.Errorf("ran with %s", e.Args)
		}
		testkit.Await(t, "nothing of "+set+" is due", func() bool {
			return rdb.ZCount(t.Context(), set, "-inf", "100").Val() == 0
		})
	}
	rec.await(soon, 1, "start", "noargs")
	testkit.Await(t, "what has no class, and can run nowhere, is dead", func() bool {
		return strings.Contains(strings.Join(rdb.ZRange(t.Context(), "dead", 0, -1).Val(), "\n"), `"jid":"noclass"`)
	})
	dead := rdb.ZRange(t.Context(), "dead", 0, -1).Val()
	for _, raw := range odd {
		if !slices.Contains(dead, raw) && !keptAsJob(dead, raw) {
			t.Errorf("%q is not in the dead set", raw)
		}
	}
}
