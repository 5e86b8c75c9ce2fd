package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// callbacksOf are callbacks in the queue called, which nobody serves.
func callbacksOf() client.BatchOptions {
	on := func(event string) client.Item { return client.Job(recordOf{event}, client.Queue("called")) }
	return client.BatchOptions{Complete: on("complete"), Success: on("success"), Death: on("death")}
}

type recordOf struct{ What string }

func (recordOf) Class() string { return "Record" }

// called are the events whose callbacks were pushed, in order.
func (s *site) called() string {
	s.t.Helper()
	var events []string
	for _, raw := range s.queue("called") {
		_, event, _ := strings.Cut(strings.Trim(field(s.t, raw, "t_callback"), `"`), ":")
		events = append(events, event)
	}
	return strings.Join(events, " ")
}

// left is how many jobs of a batch are not done, and how many have not ended a run.
func (s *site) left(id string) string {
	s.t.Helper()
	return fmt.Sprint(s.rdb.HMGet(s.t.Context(), "troupe:batch:"+id, "pending", "unrun").Val())
}

func (s *site) awaitLeft(id, want string) {
	s.t.Helper()
	testkit.Await(s.t, "of the batch are left "+want, func() bool { return s.left(id) == want })
}

// Jobs of a batch fail in Ruby, and come back by Ruby's poller, by its RetrySet and by its DeadSet: they keep their place in the batch, and
// count when troupe has run them.
func TestBatchesThatRubyRetries(t *testing.T) {
	s := newSite(t)
	var jids []string
	id, err := s.client.Batch(t.Context(), callbacksOf(), func(b *client.Batch) error {
		for i := range 3 {
			jid, err := b.PushClass(t.Context(), "FailInRuby", []any{i})
			if err != nil {
				return err
			}
			jids = append(jids, jid)
		}
		return nil
	})
	s.must(err)
	sidekiq := s.sidekiq("-c", "1")
	raws := make([]string, len(jids))
	for i, jid := range jids {
		raws[i], _ = s.awaitIn("retry", jid)
	}
	sidekiq.Stop(soon)
	harness.Equal(t, "left after Ruby's runs", s.left(id), "[3 3]")

	s.sidekiq("-c", "1", "-q", "other") // for its poller
	s.due("retry", raws[0])
	testkit.Await(t, "Ruby's poller has moved a job", func() bool { return len(s.queue("default")) == 1 })
	s.ruby(`Sidekiq::RetrySet.new.find_job(args[0]).retry`, nil, jids[1])
	s.ruby(`Sidekiq::RetrySet.new.find_job(args[0]).kill; Sidekiq::DeadSet.new.find_job(args[0]).retry`, nil, jids[2])
	harness.Equal(t, "called before Go runs", s.called(), "")
	s.work(on(2, "default"))
	s.awaitLeft(id, "[0 0]")
	harness.Equal(t, "called", s.called(), "complete success")
	for i, jid := range jids {
		run := s.awaitRuns(1, jid)[0]
		if got, want := field(t, run.Payload, "t_batch"), fmt.Sprintf(`"%s:%d"`, id, i); got != want {
			t.Errorf("the job %d of the batch came back from Ruby with t_batch %s, want %s", i, got, want)
		}
	}
}

// Jobs of a batch that are there twice, as behind a crash, run twice and fail twice: each counts once. Nothing is pushed before the job that
// waits has run, and nothing after the end.
func TestBatchesAJobThatRunsTwice(t *testing.T) {
	s := newSite(t)
	var twice, fails, waits string
	id, err := s.client.Batch(t.Context(), callbacksOf(), func(b *client.Batch) (err error) {
		for jid, class := range map[*string]string{&twice: "Record", &fails: "FailOnce", &waits: "Gate"} {
			if *jid, err = b.PushClass(t.Context(), class, nil); err != nil {
				return err
			}
		}
		return nil
	})
	s.must(err)
	copies := map[string]string{}
	for _, raw := range s.queue("default") {
		if copies[payload(t, raw).JID()] = raw; !strings.Contains(raw, `"Gate"`) {
			s.put("default", raw)
		}
	}
	s.work(on(2, "default"))
	s.awaitRuns(2, twice)
	s.awaitRuns(2, fails)
	s.awaitSize("retry", 2)
	s.awaitLeft(id, "[2 1]")
	for _, raw := range s.members("retry") {
		s.due("retry", raw)
	}
	s.awaitRuns(4, fails)
	s.awaitLeft(id, "[1 1]")
	harness.Equal(t, "called while a job waits", s.called(), "")
	s.must(s.notes.Set(t.Context(), gateKey(waits), 1, 0).Err())
	s.awaitLeft(id, "[0 0]")
	harness.Equal(t, "called", s.called(), "complete success")
	s.put("default", copies[twice], copies[fails])
	s.awaitRuns(3, twice)
	s.awaitRuns(5, fails)
	s.awaitEmpty("default")
	harness.Equal(t, "called, and after one more run of each", s.called(), "complete success")
}
