package conformance

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// newsletter is an iterable job over a list of addresses, as Ruby's with an
// array_enumerator is.
type newsletter struct {
	Size int `arg:"0"`
}

func (newsletter) Class() string { return "Newsletter" }

// mailer performs newsletters and notes what it sent and what it was told.
type mailer struct {
	pause time.Duration // of an item

	mu    sync.Mutex
	sent  []int
	hooks []string
	first troupe.Iteration // as the first hook got it
}

func (m *mailer) note(hook string) func(context.Context, *troupe.Job[newsletter], troupe.Iteration) error {
	return func(_ context.Context, _ *troupe.Job[newsletter], it troupe.Iteration) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.hooks) == 0 {
			m.first = it
		}
		m.hooks = append(m.hooks, hook)
		return nil
	}
}

func (m *mailer) registry() *troupe.Registry {
	var r troupe.Registry
	troupe.HandleIterable(&r,
		func(_ context.Context, job *troupe.Job[newsletter], from *int, yield func(int, int) bool) error {
			return troupe.YieldSlice(make([]int, job.Args.Size), from, func(i, _ int) bool { return yield(i, i) })
		},
		func(_ context.Context, _ *troupe.Job[newsletter], i int) error {
			m.mu.Lock()
			m.sent = append(m.sent, i)
			m.mu.Unlock()
			time.Sleep(m.pause) // Sidekiq has real time: the job takes long enough to be interrupted
			return nil
		},
		troupe.IterableOptions[newsletter]{
			OnStart: m.note("start"), OnResume: m.note("resume"), OnStop: m.note("stop"),
			OnCancel: m.note("cancel"), OnComplete: m.note("complete"),
		})
	return &r
}

func (m *mailer) seen() (sent []int, hooks string, first troupe.Iteration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sent), strings.Join(m.hooks, " "), m.first
}

func (s *site) mail(m *mailer) *testkit.Kit {
	s.t.Helper()
	return testkit.Start(s.t, actors.Config{Redis: s.rdb, Registry: m.registry()})
}

// iteration lays the state of a golden file under a job, as Ruby left it, and
// returns its fields.
func (s *site) iteration(jid, file string) map[string]string {
	s.t.Helper()
	want := map[string]string{}
	for line := range strings.Lines(golden(s.t, file)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[key] = value
	}
	s.must(s.rdb.HSet(s.t.Context(), "it-"+jid, want).Err())
	return want
}

func (s *site) stateGone(jid string) {
	s.t.Helper()
	testkit.Await(s.t, "its state is deleted", func() bool { return s.rdb.Exists(s.t.Context(), "it-"+jid).Val() == 0 })
}

// cancel8 is what Sidekiq 7.3 and 8 do to cancel a job (7 without the NX, which
// needs Redis 7), with 6.4.1's connection.
const cancel8 = `key = "it-" + args[0]
Sidekiq.redis { |c| c.pipelined { |p|
  p.hsetnx(key, "cancelled", Time.now.to_i)
  p.hget(key, "cancelled")
  p.expire(key, 30 * 24 * 60 * 60)
} }[1].to_i`

// A running job: within 5 s, that is 100 items of 50 ms. A machine that is slow
// does fewer. The exact time is held in virtual time, by a test of package actors.
func TestCheck34ACancellationFromRubyIsSeenWithinFiveSeconds(t *testing.T) {
	s := newSite(t)
	m := &mailer{pause: 50 * time.Millisecond}
	kit := s.mail(m)
	jid := s.push("Newsletter", `[1000000]`)
	testkit.Await(t, "it runs", func() bool { sent, _, _ := m.seen(); return len(sent) > 10 })
	var at int64
	s.ruby(cancel8, &at, jid)
	before, _, _ := m.seen()
	if age := time.Since(time.Unix(at, 0)); age < -time.Minute || age > time.Minute {
		t.Errorf("Ruby says that it was cancelled %s ago", age)
	}
	s.awaitEmpty("default")
	sent, hooks, _ := m.seen()
	if n := len(sent) - len(before); n > 100 {
		t.Errorf("%d items were sent after the cancellation, want those of 5 s, 100 at most", n)
	}
	if hooks != "start cancel stop complete" { // in Sidekiq's order
		t.Errorf("hooks: %s", hooks)
	}
	s.stateGone(jid)
	kit.Stop()
	if got := s.stats(); got.Processed != 1 || got.Failed != 0 || got.Retries != 0 {
		t.Errorf("Ruby's Stats: %+v", got)
	}
}

// A job that waits in its queue, or for its retry, ends when it would run.
func TestCheck34ACancelledJobThatWaitsDoesNotRun(t *testing.T) {
	s := newSite(t)
	m := &mailer{}
	fresh, failed := s.push("Newsletter", `[5]`), s.push("Newsletter", `[5]`, with("retry_count", 0))
	s.ruby(cancel8, nil, fresh)
	s.iteration(failed, "v8_iterable_cancelled.txt")
	s.mail(m)
	s.stateGone(fresh)
	s.stateGone(failed)
	sent, hooks, _ := m.seen()
	if len(sent) != 0 || strings.Count(hooks, "cancel") != 2 || strings.Count(hooks, "start") != 1 || strings.Count(hooks, "resume") != 1 {
		t.Errorf("sent %v, hooks: %s", sent, hooks)
	}
}

// Go's own client asks in the same way, and Ruby reads the answer.
func TestCheck34GoCancelsAsRubyDoes(t *testing.T) {
	s := newSite(t)
	var byRuby int64
	s.ruby(cancel8, &byRuby, "j1")
	at, err := client.New(s.rdb).CancelIterable(t.Context(), "j1")
	if err != nil || at.Unix() != byRuby {
		t.Errorf("cancelled at %v, %v, want Ruby's %d: the first counts", at, err, byRuby)
	}
	at, err = client.New(s.rdb).CancelIterable(t.Context(), "j2")
	s.must(err)
	var read int64
	s.ruby(cancel8, &read, "j2")
	harness.Equal(t, "Ruby reads", read, at.Unix())
	for _, jid := range []string{"j1", "j2"} {
		if ttl := s.rdb.TTL(t.Context(), "it-"+jid).Val(); ttl < 30*24*time.Hour-time.Minute || ttl > 30*24*time.Hour {
			t.Errorf("the flag of %s lives %s", jid, ttl)
		}
	}
}

func TestCheck34AnIterationOfRubyGoesOnInGo(t *testing.T) {
	for file, want := range map[string]struct {
		from, runs int
		runtime    time.Duration
	}{
		"v7_iterable.txt": {199, 2, 0},
		"v8_iterable.txt": {1000, 3, 7531902614},
	} {
		t.Run(file, func(t *testing.T) {
			s := newSite(t)
			m := &mailer{}
			jid := s.push("Newsletter", `[1005]`)
			s.iteration(jid, file)
			s.mail(m)
			s.stateGone(jid)
			sent, hooks, first := m.seen()
			if len(sent) != 1005-want.from || sent[0] != want.from || sent[len(sent)-1] != 1004 {
				t.Errorf("sent %d items from %v, want those from %d on", len(sent), sent[:1], want.from)
			}
			harness.Equal(t, "hooks", hooks, "resume stop complete")
			if first.Executions != want.runs || first.Runtime < want.runtime.Truncate(time.Microsecond) {
				t.Errorf("the state was %+v, want execution %d after %s", first, want.runs, want.runtime)
			}
		})
	}
}

// loads is how 7.3 and 8 read a state, at the start of a run.
const loads = `s = Sidekiq.redis { |c| c.hgetall("it-" + args[0]) }
{ex: s["ex"].to_i, c: Sidekiq.load_json(s["c"]), rt: s["rt"].to_f}`

// What an interrupted Go job leaves has Ruby's fields in Ruby's form, and the job
// waits in its queue like a pushed one.
func TestCheck34AnIterationOfGoHasRubysState(t *testing.T) {
	s := newSite(t)
	m := &mailer{pause: 20 * time.Millisecond}
	kit := s.mail(m)
	jid := s.push("Newsletter", `[1000000]`)
	testkit.Await(t, "it runs", func() bool { sent, _, _ := m.seen(); return len(sent) > 5 })
	kit.Stop()
	sent, hooks, _ := m.seen()
	harness.Equal(t, "hooks", hooks, "start stop")
	state := s.rdb.HGetAll(t.Context(), "it-"+jid).Val()
	want := s.iteration("as-8-writes-it", "v8_iterable.txt")
	if state["t_done"] != strconv.Itoa(len(sent)) {
		t.Errorf("%s items are told to be done, want %d", state["t_done"], len(sent))
	}
	delete(state, "t_done") // troupe's own field, which Ruby does not read
	if got, want := slices.Sorted(maps.Keys(state)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		t.Errorf("fields %q, want %q", got, want)
	}
	forms := map[string]*regexp.Regexp{"ex": regexp.MustCompile(`^\d+$`), "c": regexp.MustCompile(`^\d+$`), "rt": regexp.MustCompile(`^\d+\.\d+$`)}
	for key, form := range forms {
		if !form.MatchString(want[key]) || !form.MatchString(state[key]) {
			t.Errorf("field %s is %q, want something like %q", key, state[key], want[key])
		}
	}
	if ttl := s.rdb.TTL(t.Context(), "it-"+jid).Val(); ttl < 30*24*time.Hour-time.Minute || ttl > 30*24*time.Hour {
		t.Errorf("it lives %s, want 30 days", ttl)
	}
	var read struct {
		Ex, C int
		Rt    float64
	}
	s.ruby(loads, &read, jid)
	if read.Ex != 1 || read.C != len(sent) || read.Rt <= 0 {
		t.Errorf("Ruby reads %+v, want one run that has come to item %d", read, len(sent))
	}
	var job map[string]any
	s.ruby(`Sidekiq::Queue.new("default").map(&:item).first`, &job)
	if job["jid"] != jid || job["class"] != "Newsletter" {
		t.Errorf("Ruby finds %v in the queue", job)
	}
	if got := s.stats(); got.Processed != 1 || got.Failed != 1 || got.Enqueued != 1 || got.Retries != 0 { // as under Ruby
		t.Errorf("Ruby's Stats: %+v", got)
	}
}
