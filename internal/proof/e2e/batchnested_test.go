package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/testkit"
)

// Batches three deep, made by jobs with their acks, whose jobs fail at first and some of which die, under kill -9 of two processes: each
// callback runs once, none before what it waits for, and none is missing. Success follows when the dead jobs were retried by the command.
func TestNestedBatchesUnderKills(t *testing.T) {
	t.Parallel()
	rdb, rec, spec := toKill(t)
	spec.Poll = 200 * time.Millisecond
	ctx := t.Context()
	top := nest{Path: "top", Jobs: 120, Below: []int{3, 4}}
	id, err := client.New(rdb).Batch(ctx, callbacksOf(top.Path), func(b *client.Batch) error { return top.fill(ctx, b) })
	harness.OK(t, err)
	paths := []string{"top"}
	for i := range 3 {
		paths = append(paths, fmt.Sprint("top.", i))
		for k := range 4 {
			paths = append(paths, fmt.Sprint("top.", i, ".", k))
		}
	}
	const members = 120 * (1 + 3 + 3*3)
	works := []interface{ Kill() }{startWorker(t, spec), startWorker(t, spec)}
	seen := func() int { return int(rec.rdb.LLen(ctx, eventsKey).Val()) }
	killOne := func(i int) {
		works[i%2].Kill()
		works[i%2] = startWorker(t, spec)
	}
	for kill := range 6 { // each member has two events at least
		testkit.Await(t, "some more have run", func() bool { return seen() >= (kill+1)*members/4+rand.IntN(members/8) })
		killOne(kill)
	}
	lastBegins := func(callback string) { // of all jobs: one look at what is left may miss a job that moves
		t.Helper()
		harness.AwaitFor(t, 2*time.Minute, "the last callback has begun", func() bool {
			return slices.ContainsFunc(harness.Must(batchEvents(rec.all()))(t), func(e batchEvent) bool {
				return e.Of == "top" && e.What == "start" && e.Callback == callback
			})
		})
	}
	lastBegins("complete")
	const dead = 3 // one of each first batch of the lowest
	harness.AwaitFor(t, 2*time.Minute, "all but the dead are done", func() bool { return len(leftovers(t, rdb)) == dead })
	harness.Equal(t, "dead", rdb.ZCard(ctx, "dead").Val(), dead)
	unsuccessful := map[string]bool{"top": true}
	for i := range 3 {
		unsuccessful[fmt.Sprint("top.", i)], unsuccessful[fmt.Sprint("top.", i, ".0")] = true, true
	}
	rec.batches(t, paths, func(path, event string) int {
		switch {
		case event == "success" && unsuccessful[path], event == "death" && !unsuccessful[path]:
			return 0
		}
		return 1
	})

	harness.OK(t, rec.rdb.Set(ctx, repairedKey, 1, 0).Err())
	retry := procs.Troupe(t, nil, "jobs", "retry", "dead", "--all", "--yes", "--redis", spec.Redis)
	if code := retry.Exit(soon); code != 0 {
		t.Fatalf("jobs retry: %d\n%s", code, retry.Stderr())
	}
	killOne(0)
	lastBegins("success")
	harness.AwaitFor(t, 2*time.Minute, "no job is left in Redis", func() bool { return len(leftovers(t, rdb)) == 0 })
	testkit.RequireBatchState(t, rdb, id, inspect.BatchSucceeded)
	rec.batches(t, paths, func(path, event string) int {
		if event == "death" && !unsuccessful[path] {
			return 0
		}
		return 1
	})
	livesForADay(t, rdb, id)
}

// batches holds what has run against what callbacks are to come, and when: want tells how often one is pushed.
func (r *records) batches(t *testing.T, paths []string, want func(path, event string) int) {
	t.Helper()
	all := harness.Must(batchEvents(r.all()))(t)
	for _, path := range paths {
		pushed := map[string]map[string]int64{} // by event and jid: when it began
		for _, e := range all {
			if e.Of == path && e.What == "start" && e.Callback != "" {
				if pushed[e.Callback] == nil {
					pushed[e.Callback] = map[string]int64{}
				}
				if _, known := pushed[e.Callback][e.JID]; !known { // it may run again behind a kill
					pushed[e.Callback][e.JID] = e.At
				}
			}
		}
		for _, event := range []string{"complete", "success", "death"} {
			if n := len(pushed[event]); n != want(path, event) {
				t.Errorf("batch %s: %d callbacks %s, want %d", path, n, event, want(path, event))
			}
		}
		ran, done := map[string]int64{}, map[string]int64{} // when a job has ended its first run, and when it was done
		for _, e := range all {
			below := strings.HasPrefix(e.Of, path+".")
			if e.What != "end" || e.Of != path && !below || e.Of == path && e.Callback != "" {
				continue
			}
			if _, known := ran[e.JID]; !known && !below { // what has failed to make a batch has ended a run
				ran[e.JID] = e.At
			}
			if e.Succeeded {
				done[e.JID] = max(done[e.JID], e.At)
			}
		}
		for jid, at := range pushed["complete"] {
			for job, end := range ran {
				if end > at {
					t.Errorf("batch %s: its callback complete %s began before its job %s had ended a run", path, jid, job)
				}
			}
		}
		for jid, at := range pushed["success"] {
			for job, end := range done {
				if end > at {
					t.Errorf("batch %s: its callback success %s began before its job %s was done", path, jid, job)
				}
			}
			for job := range ran {
				if done[job] == 0 {
					t.Errorf("batch %s has succeeded, and its job %s is not done", path, job)
				}
			}
		}
	}
}
