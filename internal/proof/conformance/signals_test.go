package conformance

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// quickBeat is for tests that are not about the time between beats.
const quickBeat = 200 * time.Millisecond

// signal sends one of Ruby's remote signals: quiet!, stop! or dump_threads.
func (s *site) signal(p *goProcess, method string) {
	s.t.Helper()
	s.ruby(`Sidekiq::ProcessSet.new.find { |p| p.identity == args[0] }.send(args[1])`, nil, p.identity, method)
}

func TestCheck24QuietFromRubyEndsFetchingWithinTenSeconds(t *testing.T) {
	s := newSite(t)
	p := s.process(on(2, "default")) // with the daemon's own time between beats
	running := s.push("Gate", `[]`)
	s.awaitRuns(1, running)
	// A signal that comes just after a beat waits ten seconds for the next one; six
	// of them are left here for a machine that is slow to answer.
	testkit.Await(t, "the last beat is six seconds old", func() bool {
		beat, err := strconv.ParseFloat(s.hash(p, "beat"), 64)
		return err == nil && time.Since(time.UnixMicro(int64(beat*1e6))) > 6*time.Second
	})
	pressed := time.Now()
	s.signal(p, "quiet!")
	testkit.Await(t, "quiet is true", func() bool { return s.hash(p, "quiet") == "true" })
	took := time.Since(pressed)
	t.Logf("quiet %s after the call", took)
	if took > 10*time.Second {
		t.Errorf("quiet %s after the call", took)
	}
	var stopping bool
	s.ruby(`Sidekiq::ProcessSet.new.first.stopping?`, &stopping)
	if !stopping {
		t.Error("Ruby does not show it as stopping")
	}
	waiting := s.push("Record", `[]`)
	s.open(running)
	testkit.Await(t, "the running job is done", func() bool { return len(p.Logged("job done")) == 1 })
	// What comes in the instant in which its last wait ends goes back.
	testkit.Await(t, "the other is in the queue", func() bool {
		left := s.queue("default")
		return len(left) == 1 && field(t, left[0], "jid") == strconv.Quote(waiting)
	})
	if !p.Running() {
		t.Error("the process has ended")
	}
	p.Stop(soon)
	if n := len(s.events("run", waiting)); n != 0 {
		t.Errorf("the quiet process ran a job")
	}
}

func TestCheck25StopFromRubyEndsTheProcessInGoodOrder(t *testing.T) {
	s := newSite(t)
	spec := on(2, "default")
	spec.Beat, spec.Timeout = quickBeat, 2*time.Second
	p := s.process(spec)
	ends, unresponsive := s.push("Gate", `["ends"]`), s.push("Gate", `["does not"]`)
	s.awaitRuns(2, "")
	s.signal(p, "stop!")
	p.AwaitLog("stop: waiting for running jobs")
	began := time.Now()
	s.open(ends)
	harness.Equal(t, "exit code", p.Exit(soon), 0)
	if took := p.Ended().Sub(began); took > spec.Timeout+20*time.Second { // grace, and a loaded machine
		t.Errorf("ended %s after the stop, the timeout is %s", took, spec.Timeout)
	}
	var left int
	s.ruby(`Sidekiq::ProcessSet.new(false).size + Sidekiq::ProcessSet.new(false).count`, &left)
	if waiting := s.queue("default"); left != 0 || len(waiting) != 1 || field(t, waiting[0], "jid") != strconv.Quote(unresponsive) {
		t.Errorf("%d processes, in the queue %q", left, waiting)
	}
}

func TestCheck26DumpThreadsLogsGoroutinesAndWorkGoesOn(t *testing.T) {
	s := newSite(t)
	spec := on(2, "default")
	spec.Beat = quickBeat
	p := s.process(spec)
	jid := s.push("Gate", `[]`)
	s.awaitRuns(1, jid)
	s.signal(p, "dump_threads")
	dump := p.AwaitLog("dump")
	if text := harness.Str(dump, "goroutines"); !strings.Contains(text, "goroutine ") || !strings.Contains(text, "worker_test.go") {
		t.Errorf("goroutines: %.500s", text)
	}
	s.awaitRuns(1, s.push("Record", `[]`))
	harness.Equal(t, "quiet is", s.hash(p, "quiet"), "false")
}

func TestCheck37QuietThenStopAndASecondStopChangesNothing(t *testing.T) {
	s := newSite(t)
	p := s.process(on(2, "default"))
	jid := s.push("Gate", `[]`)
	s.awaitRuns(1, jid)
	p.Signal(osproc.Quiet)
	testkit.Await(t, "quiet is true", func() bool { return s.hash(p, "quiet") == "true" })
	p.Signal(syscall.SIGTERM)
	p.AwaitLog("stop: waiting for running jobs")
	for range 3 {
		p.Signal(syscall.SIGTERM)
		p.Signal(syscall.SIGINT)
	}
	s.open(jid)
	harness.Equal(t, "exit code", p.Exit(soon), 0)
	if st := s.stats(); st.Processed != 1 || st.Failed != 0 || st.Enqueued != 0 || len(p.Logged("stop: waiting for running jobs")) != 1 {
		t.Errorf("Ruby's Stats %+v; the stop began %d times", st, len(p.Logged("stop: waiting for running jobs")))
	}
}

func TestCheck32AKilledProcessLeavesTheListOfTheOtherSide(t *testing.T) {
	s := newSite(t)
	p := s.process(on(1, "default"))
	p.Kill()
	s.expire(p.identity)
	var seen struct{ Shown, Listed, Cleaned, Left int }
	s.ruby(`set = Sidekiq::ProcessSet.new(false)
{shown: set.count, listed: set.size, cleaned: set.cleanup, left: set.size}`, &seen)
	if seen.Shown != 0 || seen.Listed != 1 || seen.Cleaned != 1 || seen.Left != 0 {
		t.Errorf("Ruby's ProcessSet: %+v", seen)
	}

	// and the reverse, with somebody else's lock on the cleanup
	ruby := s.sidekiq("-c", "1")
	testkit.Await(t, "Ruby's first beat", func() bool { return s.rdb.SCard(t.Context(), "processes").Val() == 1 })
	dead := s.rdb.SMembers(t.Context(), "processes").Val()[0]
	testkit.Await(t, "its info", func() bool { return s.rdb.HExists(t.Context(), dead, "info").Val() })
	ruby.Kill()
	s.expire(dead)
	s.must(s.rdb.Set(t.Context(), "process_cleanup", "1", time.Minute).Err())

	var tries atomic.Int64
	options := *s.rdb.Options()
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &counting{Conn: c, word: "process_cleanup", n: &tries}, err
	}
	watched := redis.NewClient(&options)
	t.Cleanup(func() { _ = watched.Close() })
	spec := on(1, "default")
	spec.Poll = 100 * time.Millisecond
	daemon := &site{t: t, rdb: watched, url: s.url, notes: s.notes, book: s.book}
	daemon.work(spec)
	testkit.Await(t, "Go has tried to clean up", func() bool { return tries.Load() >= 2 })
	if !s.rdb.SIsMember(t.Context(), "processes", dead).Val() {
		t.Error("Go has cleaned up in spite of the lock")
	}
	s.must(s.rdb.Del(t.Context(), "process_cleanup").Err())
	testkit.Await(t, "Go removes the dead process", func() bool { return !s.rdb.SIsMember(t.Context(), "processes", dead).Val() })
	if ttl := s.rdb.TTL(t.Context(), "process_cleanup").Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("Go's lock on the cleanup lives %s", ttl)
	}
}

// expire lets the minute pass that a dead process is still shown.
func (s *site) expire(identity string) {
	s.t.Helper()
	if ttl := s.rdb.TTL(s.t.Context(), identity).Val(); ttl <= 0 || ttl > time.Minute {
		s.t.Errorf("%s lives %s, want at most a minute", identity, ttl)
	}
	s.must(s.rdb.PExpire(s.t.Context(), identity, time.Millisecond).Err())
	testkit.Await(s.t, "its time is over", func() bool { return s.rdb.Exists(s.t.Context(), identity).Val() == 0 })
}

// counting counts the writes that have a word in them.
type counting struct {
	net.Conn
	word string
	n    *atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.word) {
		c.n.Add(1)
	}
	return c.Conn.Write(p)
}
