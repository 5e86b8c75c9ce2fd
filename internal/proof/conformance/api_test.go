package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

func TestCheck27RubysStatsRiseByExactlyWhatGoRan(t *testing.T) {
	s := newSite(t)
	s.must(s.rdb.MSet(t.Context(), "stat:processed", 1000, "stat:failed", 100).Err())
	before, today := s.stats(), time.Now().UTC().Format(time.DateOnly)
	kit := s.work(on(5, "default"))
	_, err := s.client.PushBulkClass(t.Context(), "Record", numbered(40))
	s.must(err)
	for range 3 {
		s.push("Fail", `[]`, client.Retry(0))
		s.push("Boom", `[]`)
		s.push("Nowhere", `[]`)
		s.push("Fail", `[]`, client.Never())
	}
	s.put("default", `no job`)
	testkit.Await(t, "all are settled", func() bool { st := kit.Stats(); return st.Processed == 52 && st.Waiting == 0 })
	s.awaitSize("dead", 4)
	kit.Stop()
	after := s.stats()
	if after.Processed-before.Processed != 52 || after.Failed-before.Failed != 12 {
		t.Errorf("Ruby's Stats were %+v, are %+v", before, after)
	}
	var history [2]int // the test may run over midnight
	s.ruby(`h = Sidekiq::Stats::History.new(2); [h.processed.values.sum, h.failed.values.sum]`, &history)
	if history != [2]int{52, 12} {
		t.Errorf("Ruby's history: %v", history)
	}
	days := s.rdb.Keys(t.Context(), "stat:*:*").Val()
	if len(days) < 2 {
		t.Errorf("keys of the day: %v", days)
	}
	tomorrow := time.Now().UTC().Format(time.DateOnly)
	for _, key := range days {
		if !strings.HasSuffix(key, ":"+today) && !strings.HasSuffix(key, ":"+tomorrow) {
			t.Errorf("key of the day %s, want %s", key, today)
		}
		if ttl := s.rdb.TTL(t.Context(), key).Val(); ttl > 157_680_000*time.Second || ttl < 157_680_000*time.Second-time.Hour {
			t.Errorf("%s lives %s", key, ttl)
		}
	}
}

func TestCheck28RubysRescheduleOfAGoJobLeavesOneMember(t *testing.T) {
	s := newSite(t)
	at := time.Now().Add(time.Hour)
	args := `["<&>` + "\u2028\u2029" + ` 😀",123456789012345678901234567890,100.0,0.1,{"é":[null]}]`
	jid := s.push("Record", args, client.At(at), with("custom", map[string]any{"a": 1.0}), client.Tags("é"))
	raw, _ := s.find("schedule", jid)
	s.ruby(`Sidekiq::ScheduledSet.new.find_job(args[0]).reschedule(args[1])`, nil, jid, scores.Of(at.Add(100*time.Second)))
	if members := s.members("schedule"); len(members) != 1 || members[0] != raw {
		t.Fatalf("schedule has %q, want %s", members, raw)
	}
	if _, score := s.find("schedule", jid); score < scores.Of(at)+99.999 || score > scores.Of(at)+100.001 {
		t.Errorf("score %f, scheduled for %f", score, scores.Of(at))
	}

	// the same with what the retry logic has written
	failed := s.push("Fail", args, with("backtrace", true))
	s.work(on(2, "default"))
	raw, score := s.awaitIn("retry", failed)
	s.ruby(`e = Sidekiq::RetrySet.new.find_job(args[0]); e.reschedule(e.score + 100)`, nil, failed)
	if members := s.members("retry"); len(members) != 1 || members[0] != raw {
		t.Fatalf("retry has %q, want %s", members, raw)
	}
	if _, again := s.find("retry", failed); again < score+99.999 || again > score+100.001 {
		t.Errorf("score %f, was %f", again, score)
	}
}

// pair puts two jobs of the same class into a set by Go's own hand and gives them
// one score.
func (s *site) pair(set string) (jids, raws [2]string) {
	s.t.Helper()
	for i := range jids {
		switch set {
		case "schedule":
			jids[i] = s.push("Record", `["é<&>"]`, client.In(time.Hour))
		case "retry":
			jids[i] = s.push("Fail", `["é<&>"]`)
		case "dead":
			jids[i] = s.push("Fail", `["é<&>"]`, client.Retry(0))
		}
	}
	score := scores.Of(time.Now()) + 1000.125
	for i, jid := range jids {
		raws[i], _ = s.awaitIn(set, jid)
		s.must(s.rdb.ZAddXX(s.t.Context(), set, redis.Z{Score: score, Member: raws[i]}).Err())
	}
	return jids, raws
}

func TestCheck29RubysActionsOnAGoEntryActOnThatEntryOnly(t *testing.T) {
	s := newSite(t)
	kit := s.work(on(2, "default"))
	pairs := map[string][2][2]string{} // by set and action: jids, raws
	for _, c := range [][2]string{
		{"retry", "retry"}, {"retry", "kill"}, {"retry", "delete"},
		{"schedule", "add_to_queue"}, {"schedule", "delete"}, {"dead", "retry"}, {"dead", "delete"},
	} {
		jids, raws := s.pair(c[0])
		pairs[c[0]+" "+c[1]] = [2][2]string{jids, raws}
	}
	kit.Stop() // what comes back into the queue stays there
	for what, p := range pairs {
		set, action, _ := strings.Cut(what, " ")
		jid, other, raw := p[0][0], p[0][1], p[1][0]
		class := map[string]string{"retry": "RetrySet", "schedule": "ScheduledSet", "dead": "DeadSet"}[set]
		s.ruby(`e = Sidekiq.const_get(args[0]).new.find_job(args[1]); e.send(args[2])`, nil, class, jid, action)
		if left, _ := s.find(set, jid); left != "" {
			t.Errorf("%s: still there: %s", what, left)
		}
		if left, score := s.find(set, other); left != p[1][1] || score == 0 {
			t.Errorf("%s: the other entry is %q", what, left)
		}
		s.acted(what, action, jid, raw)
	}
}

// acted wants an entry to be where an action of Ruby's leaves it.
func (s *site) acted(what, action, jid, raw string) {
	s.t.Helper()
	var queued string
	for _, job := range s.queue("default") {
		if strings.Contains(job, jid) {
			queued = job
		}
	}
	dead, _ := s.find("dead", jid)
	switch action {
	case "delete":
		if queued+dead != "" {
			s.t.Errorf("%s: in the queue %q, in dead %q", what, queued, dead)
		}
	case "kill":
		if queued != "" || dead != raw {
			s.t.Errorf("%s: in the queue %q, in dead %q, want there %s", what, queued, dead, raw)
		}
	default:
		if queued == "" || dead != "" {
			s.t.Fatalf("%s: in the queue %q, in dead %q", what, queued, dead)
		}
		sameFields(s.t, raw, queued, "enqueued_at", "retry_count")
		if want := map[string]string{"": "", "0": "-1"}[field(s.t, raw, "retry_count")]; field(s.t, queued, "retry_count") != want {
			s.t.Errorf("%s: pushed again as %s", what, queued)
		}
	}
}

func TestCheck30RubysDeleteInAQueueRemovesThatGoJobOnly(t *testing.T) {
	s := newSite(t)
	var jids []string
	for range 3 {
		jids = append(jids, s.push("Record", `["<&>`+"\u2028"+`",100.0,1]`))
	}
	before := s.queue("default")
	var deleted bool
	s.ruby(`Sidekiq::Queue.new.find_job(args[0]).delete`, &deleted, jids[1])
	after := s.queue("default")
	if !deleted || len(after) != 2 || after[0] != before[0] || after[1] != before[2] {
		t.Errorf("deleted %v: the queue was %q, is %q", deleted, before, after)
	}
}

func TestCheck31AManualRetryOfAFirstFailureIsAccepted(t *testing.T) {
	s := newSite(t)
	jid := s.push("Fail", `[1]`)
	s.work(on(2, "default"))
	first, _ := s.awaitIn("retry", jid)
	s.ruby(`Sidekiq::RetrySet.new.find_job(args[0]).retry`, nil, jid)
	runs := s.awaitRuns(2, jid)
	harness.Equal(t, "Ruby pushed it again with retry_count", field(t, runs[1].Payload, "retry_count"), "-1")
	again, _ := s.awaitIn("retry", jid)
	if field(t, again, "retry_count") != "0" || form(field(t, again, "retried_at")) != "seconds with a fraction" ||
		field(t, again, "failed_at") != field(t, first, "failed_at") {
		t.Errorf("first failure %s\nsecond %s", first, again)
	}
	s.browser().get("/retries/" + key(s, "retry", jid)) // its detail page
}

// key is the name of an entry on the pages.
func key(s *site, set, jid string) string {
	_, score := s.find(set, jid)
	return scores.Format(score) + "-" + jid
}
