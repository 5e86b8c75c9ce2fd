package conformance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
)

// pushUnique pushes a job that is unique, and returns the jid of who holds its lock already, "" for nobody.
func (s *site) pushUnique(class string, opts ...client.Option) (jid, holder string) {
	s.t.Helper()
	jid, err := s.client.PushClass(s.t.Context(), class, []any{1}, append(opts, client.Unique(troupe.Unique{For: time.Hour}))...)
	if dup, ok := errors.AsType[*client.DuplicateError](err); ok {
		return "", dup.Holder
	}
	s.must(err)
	return jid, ""
}

// holders are the values of all locks.
func (s *site) holders() string {
	s.t.Helper()
	var all []string
	for _, key := range s.rdb.Keys(s.t.Context(), keys.LockPrefix+"*").Val() {
		all = append(all, s.rdb.Get(s.t.Context(), key).Val())
	}
	return strings.Join(all, " ")
}

// A unique job that Ruby has scheduled, failed and put into its retry set keeps its field and its lock, and Go frees
// that with its ack.
func TestUniqueJobThatRubyRetries(t *testing.T) {
	s := newSite(t)
	sidekiq := s.sidekiq("-c", "1")
	jid, _ := s.pushUnique("FailInRuby", client.In(2*time.Second))
	stored, _ := s.find("schedule", jid)
	raw, _ := s.awaitIn("retry", jid)
	sidekiq.Stop(soon)
	if lock := field(t, raw, "t_lock"); lock == "" || lock != field(t, stored, "t_lock") {
		t.Errorf("in the retry set t_lock is %s, in schedule %s", lock, field(t, stored, "t_lock"))
	}
	if _, holder := s.pushUnique("FailInRuby"); holder != jid || s.holders() != jid {
		t.Errorf("a push beside it is refused by %q, the lock is held by %q, want %s", holder, s.holders(), jid)
	}
	kit := s.work(on(2, "default"))
	s.due("retry", raw)
	s.awaitRuns(1, jid)
	s.awaitEmpty("default")
	kit.Stop()
	if holders := s.holders(); holders != "" {
		t.Errorf("after its run the lock is held by %q", holders)
	}
}

// A unique job that Ruby runs or deletes leaves its lock behind, and the next push notes it for the leader. What
// Ruby pushes takes no lock and is refused by none.
func TestUniqueJobThatRubyEnds(t *testing.T) {
	for name, end := range map[string]func(s *site, jid string){
		"run": func(s *site, jid string) { s.rubyRuns(1, ofJID(jid)) },
		"deleted": func(s *site, jid string) {
			s.ruby(`Sidekiq::Queue.new("default").find_job(args[0]).delete`, nil, jid)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			jid, _ := s.pushUnique("Record")
			s.ruby(`Sidekiq::Client.push("class" => "Record", "args" => [1])`, nil)
			if n := s.rdb.LLen(t.Context(), "queue:default").Val(); n != 2 {
				t.Errorf("%d jobs are in the queue, want Go's and Ruby's", n)
			}
			if name == "run" {
				s.sidekiq("-c", "1")
			}
			end(s, jid)
			_, holder := s.pushUnique("Record")
			noted := s.rdb.HVals(t.Context(), keys.Conflicts).Val()
			if holder != jid || s.holders() != jid || len(noted) != 1 || noted[0] != jid {
				t.Errorf("a push is refused by %q, the lock is held by %q, noted is %q, want %s", holder, s.holders(), noted, jid)
			}
		})
	}
}
