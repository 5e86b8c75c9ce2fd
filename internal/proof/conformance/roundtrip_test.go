package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/testkit"
)

// What a failure writes, and what a push into a queue writes.
var (
	failureFields = []string{"queue", "error_message", "error_class", "failed_at", "retried_at", "retry_count"}
	enqueueFields = []string{"enqueued_at"}
)

func sameBytes(a, b string) bool { return a == b }

// A job that goes in and out of every place by Go's hand is the same bytes in
// every field that the step need not edit: pushed at once or for later, run,
// failed, promoted, retried and killed by hand, run again.
func TestARoundTripThroughGoKeepsEveryByte(t *testing.T) {
	s := newSite(t)
	kit := s.work(on(2, "trip"))
	in := inspect.New(s.rdb)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		j := &trip{site: s, t: t, in: in, jid: "trip" + strconv.Itoa(n)}
		j.enter()
		for range rapid.IntRange(1, 3).Draw(t, "failures") {
			j.fails()
			j.again()
		}
		j.fails()
	})
	if st := kit.Stats(); st.Failed < 200 {
		t.Errorf("%d runs", st.Failed)
	}
}

// trip is the way of one job.
type trip struct {
	*site
	t    *rapid.T
	in   *inspect.Inspector
	jid  string
	raw  string // where it is now
	runs int
}

// step compares the bytes after a step with those before it.
func (j *trip) step(name, is string, moved []string, edited ...string) {
	if err := kept(j.raw, is, sameBytes, moved, edited...); err != nil {
		j.t.Fatalf("%s: %v\nwas %s\nis  %s", name, err, j.raw, is)
	}
	j.raw = is
}

// enter brings the job into Redis in one of four ways, up to its first run.
func (j *trip) enter() {
	known := map[string]string{"class": `"Fail"`, "jid": `"` + j.jid + `"`, "queue": `"trip"`, "retry": "true", "created_at": "1795224881.153480"}
	ctx, way := j.site.t.Context(), rapid.IntRange(0, 3).Draw(j.t, "way in")
	later := time.Now().Add(10 * time.Millisecond)
	if way == 1 {
		known["at"] = string(scores.Format(scores.Of(later)))
	}
	j.raw = drawJob(j.t, known)
	switch way {
	case 0, 1: // Go's client, now or later
		p, err := troupe.ParsePayload([]byte(j.raw))
		j.must(err)
		_, err = j.client.PushPayload(ctx, p)
		j.must(err)
		// what Go pushes is the text that Ruby would write, and stays that from here on
		j.ruby(`JSON.generate(JSON.parse(args[0]))`, &j.raw, j.raw)
		j.ran([]string{"retry", "queue"}, append(enqueueFields, "at")...)
	case 2: // another client, which wrote it like this
		j.put("trip", j.raw)
		j.ran(nil)
	case 3: // likewise
		j.must(j.rdb.ZAdd(ctx, "schedule", redis.Z{Score: scores.Of(later), Member: j.raw}).Err())
		j.ran(nil, enqueueFields...)
	}
}

// ran waits for the next run and compares the bytes that the handler was given.
func (j *trip) ran(moved []string, edited ...string) {
	j.runs++
	runs := j.awaitRuns(j.runs, j.jid)
	j.step(fmt.Sprintf("run %d", j.runs), runs[j.runs-1].Payload, moved, edited...)
}

// fails waits until the failure is stored.
func (j *trip) fails() {
	raw, _ := j.awaitIn("retry", j.jid)
	j.step("failure", raw, nil, failureFields...)
}

// again takes the job from the retry set to its next run, in one of the ways
// there are.
func (j *trip) again() {
	ctx := j.site.t.Context()
	set, put := j.in.RetrySet, (*inspect.SortedEntry).Retry
	edited := append(enqueueFields, "retry_count")
	switch rapid.IntRange(0, 4).Draw(j.t, "way back") {
	case 0: // it becomes due
		j.due("retry", j.raw)
		j.ran(nil, enqueueFields...)
		return
	case 1: // it is put off first
		j.act(set, func(e *inspect.SortedEntry) (inspect.Outcome, error) {
			return e.Reschedule(ctx, time.Now().Add(time.Hour))
		})
		raw, _ := j.awaitIn("retry", j.jid)
		j.step("reschedule", raw, nil)
	case 2: // by hand, uncounted
		put, edited = (*inspect.SortedEntry).AddToQueue, enqueueFields
	case 3: // from the dead
		j.act(set, func(e *inspect.SortedEntry) (inspect.Outcome, error) { return e.Kill(ctx) })
		raw, _ := j.awaitIn("dead", j.jid)
		j.step("kill", raw, nil)
		set = j.in.DeadSet
	}
	j.act(set, func(e *inspect.SortedEntry) (inspect.Outcome, error) { return put(e, ctx) })
	j.ran(nil, edited...)
}

// act does something to the entry of the job in a set.
func (j *trip) act(set *inspect.JobSet, do func(*inspect.SortedEntry) (inspect.Outcome, error)) {
	e, err := set.FindJob(j.site.t.Context(), j.jid)
	j.must(err)
	if e == nil {
		j.t.Fatalf("%s is not in %s", j.jid, set.Name)
	}
	if outcome, err := do(e); err != nil || outcome != inspect.Done {
		j.t.Fatalf("%s: %v, %v", set.Name, outcome, err)
	}
}

// examples are n jobs that were drawn from a seed.
func examples(t *testing.T, n int, known map[string]string) (raws []string) {
	t.Helper()
	seed := int(rand.Int32())
	t.Logf("seed %d", seed)
	gen := rapid.Custom(func(t *rapid.T) func(jid string) string {
		fields := map[string]string{"jid": `"?"`}
		maps.Copy(fields, known)
		raw := drawJob(t, fields)
		return func(jid string) string { return strings.Replace(raw, `"jid":"?"`, `"jid":"`+jid+`"`, 1) }
	})
	for i := range n {
		raws = append(raws, gen.Example(seed+i)(fmt.Sprintf("%024x", i)))
	}
	return raws
}

// Jobs that a stop puts back into their queue are the bytes that were fetched.
func TestAJobPutBackAtTheDeadlineKeepsEveryByte(t *testing.T) {
	s := newSite(t)
	const n = 100
	raws := examples(t, n, map[string]string{"class": `"Gate"`, "queue": `"trip"`, "retry": "true"})
	s.put("trip", raws...)
	kit := s.work(workerSpec{Capsules: on(n, "trip").Capsules, Timeout: 50 * time.Millisecond})
	for _, run := range s.awaitRuns(n, "") {
		if !slices.Contains(raws, run.Payload) {
			t.Errorf("ran as %s", run.Payload)
		}
	}
	if report := kit.Stop(); len(report.Requeued) != n {
		t.Fatalf("%d of %d put back", len(report.Requeued), n)
	}
	back := s.queue("trip")
	slices.Sort(back)
	slices.Sort(raws)
	if !slices.Equal(back, raws) {
		t.Error("not all jobs are back as they were")
	}
}

// Jobs that Ruby pushes, fails, retries by its poller and fails again are equal
// after parsing, in every field that a step need not edit: what Go writes and
// keeps loses nothing on its way through Ruby.
func TestARoundTripThroughRubyKeepsEveryValue(t *testing.T) {
	s := newSite(t)
	const n = 200 // all have failed before the first retry is due, after 15 s
	raws := examples(t, n, map[string]string{"class": `"Fail"`, "queue": `"trip"`, "retry": "true", "created_at": "1795224881.15348"})
	same := func(a, b string) bool { return sameJSON(t, []byte(a), []byte(b)) }
	step := func(name string, was, is map[string]string, edited ...string) {
		t.Helper()
		if len(is) != n {
			t.Fatalf("%s: %d jobs", name, len(is))
		}
		for jid, raw := range was {
			if err := kept(raw, is[jid], same, []string{"retry", "queue"}, edited...); err != nil {
				t.Errorf("%s: %v\nwas %s\nis  %s", name, err, raw, is[jid])
			}
		}
	}
	byJID := func(raws []string) map[string]string {
		m := map[string]string{}
		for _, raw := range raws {
			_, texts, err := cut(raw)
			s.must(err)
			m[texts["jid"]] = raw
		}
		return m
	}
	drawn := byJID(raws)
	s.ruby(`args[0].each { |raw| Sidekiq::Client.push(JSON.parse(raw)) }; nil`, nil, raws)
	pushed := byJID(s.queue("trip"))
	step("push by Ruby", drawn, pushed, enqueueFields...)

	s.sidekiq("-c", "5", "-q", "trip")
	s.awaitSize("retry", n)
	failed := byJID(s.members("retry"))
	step("failure in Ruby", pushed, failed, failureFields...)

	for _, raw := range s.members("retry") {
		s.due("retry", raw)
	}
	again := func() map[string]string {
		texts := map[string]string{}
		for _, r := range s.rubyRuns(n, nil) {
			if field(t, r.Job, "retry_count") == "0" {
				texts[`"`+r.JID+`"`] = r.Job
			}
		}
		return texts
	}
	for seen := -1; len(again()) < n; { // as long as there are more and more
		testkit.Await(t, "retries in Ruby", func() bool { return len(again()) > max(seen, 0) })
		seen = len(again())
	}
	step("retry by Ruby", failed, again(), enqueueFields...)
	testkit.Await(t, "second failures", func() bool { return len(s.members("retry")) == n })
	step("second failure in Ruby", failed, byJID(s.members("retry")), append(failureFields, enqueueFields...)...)
}
