package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/testkit"
)

// populate makes a site on which there is everything that Go writes, by Go's own
// hand, and leaves a process there with a running job. It returns its jid.
func (s *site) populate() (busy string, stop func()) {
	s.t.Helper()
	kit := s.work(workerSpec{
		Tag: "<tag>", Labels: []string{"reliable", "é"},
		Capsules: []capsuleSpec{
			{Concurrency: 5, Queues: []string{"default", "low"}},
			{Name: "single", Concurrency: 1, Weights: map[string]int{"single": 2, "other": 1}},
		},
	})
	odd := `["<b>&\"'</b>` + "\u2028" + ` 😀\u0000",123456789012345678901234567890,100.0,null,{"é":[[]]},"` + strings.Repeat("long ", 600) + `"]`
	extras := []client.Option{client.Tags("é", "<x>"), with("custom", map[string]any{"a": []any{1.5, nil}}), with("cattr", map[string]any{"user": 7})}
	failing := func(opts ...client.Option) []client.Option { return append(opts, extras...) }
	active := func(class string) *payloadOf { return &payloadOf{s, class} }
	n := 0
	for _, opts := range [][]client.Option{
		failing(), failing(client.Backtrace(-1)), failing(client.Retry(5), client.RetryQueue("low")), failing(client.RetryFor(time.Hour)),
	} {
		for _, class := range []string{"Fail", "Boom", "Nowhere", "Garbled", "LongWinded"} {
			s.push(class, odd, opts...)
			n++
		}
	}
	for _, class := range []string{"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper"} {
		active(class).failing()
		n++
	}
	s.awaitSize("retry", n)
	s.putOff("retry")
	for _, raw := range s.members("retry")[:8] { // a second failure, with retried_at
		s.due("retry", raw)
	}
	testkit.Await(s.t, "second failures", func() bool {
		again := 0
		for _, raw := range s.members("retry") {
			if field(s.t, raw, "retried_at") != "" {
				again++
			}
		}
		return again == 8 && len(s.members("retry")) == n
	})
	s.putOff("retry")
	for range 30 {
		s.push("Fail", odd, failing(client.Retry(0))...)
	}
	s.push("Boom", odd, failing(client.Retry(0), client.Backtrace(-1))...)
	s.put("default", `not json`, ``, `[5]`, `{"class":"Record","args":["`+"\xff"+`"],"jid":"0123456789abcdef01234567","queue":"default","retry":true}`)
	s.must(s.rdb.ZAdd(s.t.Context(), "schedule", redis.Z{Score: 1.5, Member: `{"class":"Record","jid":"0123456789abcdef01234568"}`}).Err())
	s.awaitSize("dead", 30+1+3)
	for i := range 30 {
		s.push("Record", odd, append(extras, client.In(time.Duration(i+1)*time.Hour))...)
		s.push("Record", odd, append(extras, inQueue("a_queue:with.every-Character9"))...)
	}
	active("Sidekiq::ActiveJob::Wrapper").waiting("active.jobs")
	s.push("Record", `[]`, inQueue("plain"))
	busy = s.push("Gate", odd, extras...)
	s.awaitRuns(1, busy)
	work := kit.Identity() + ":work"
	testkit.Await(s.t, "the job is shown", func() bool { // it, and not the one before it
		shown := s.rdb.HVals(s.t.Context(), work).Val()
		return len(shown) == 1 && strings.Contains(shown[0], busy)
	})
	// the name under which 6.4.1 reads it
	s.must(s.rdb.Copy(s.t.Context(), work, kit.Identity()+":workers", s.rdb.Options().DB, true).Err())
	return busy, func() { s.open(busy); kit.Stop() }
}

// putOff lets nothing in a sorted set become due while a test looks at it, however
// slow the machine is.
func (s *site) putOff(set string) {
	s.t.Helper()
	for i, raw := range s.members(set) {
		score := scores.Of(time.Now().Add(time.Hour + time.Duration(i)*time.Second))
		s.must(s.rdb.ZAddXX(s.t.Context(), set, redis.Z{Score: score, Member: raw}).Err())
	}
}

// payloadOf pushes ActiveJob's payloads.
type payloadOf struct {
	s     *site
	class string
}

const activeArgs = `[{"job_class":"Emails::FailingJob","job_id":"1","queue_name":"default","arguments":["bob",7]}]`

func (p *payloadOf) failing() { p.s.push(p.class, activeArgs, with("wrapped", "Emails::FailingJob")) }

func (p *payloadOf) waiting(queue string) {
	p.s.push(p.class, activeArgs, with("wrapped", "Emails::FailingJob"), inQueue(queue))
}

func TestCheck23EveryPageOfTheWebUIShowsWhatGoWrote(t *testing.T) {
	s := newSite(t)
	busy, stop := s.populate()
	b := s.browser()
	for path, texts := range map[string][]string{
		"/":                {"Retries"},
		"/?days=90":        {"Retries"},
		"/busy":            {"reliable", "<tag>", "Gate", busy, "default, low, single, other", ">6<"},
		"/stats":           {`"busy":1`, `"retries":22`, `"dead":34`, `"scheduled":30`},
		"/stats/queues":    {`"a_queue:with.every-Character9":30`, `"plain":1`},
		"/dashboard/stats": nil,
	} {
		if path == "/dashboard/stats" {
			if p := b.request("GET", path, nil); p.Status != 302 {
				t.Errorf("GET %s: %d", path, p.Status)
			}
			continue
		}
		body := b.get(path)
		for _, text := range texts {
			if !strings.Contains(body, text) {
				t.Errorf("%s has no %q", path, text)
			}
		}
	}
	if p := b.request("HEAD", "/", nil); p.Status != 200 {
		t.Errorf("HEAD /: %d", p.Status)
	}

	queues, known := links(b.get("/queues"), "/queues/"), s.rdb.SMembers(t.Context(), "queues").Val()
	if len(queues) != len(known) || len(known) < 4 {
		t.Errorf("pages of queues: %v, want those of %v", queues, known)
	}
	for _, path := range queues {
		for _, sorted := range []string{"", "?direction=asc", "?page=2"} {
			b.get(path + sorted)
		}
	}

	for _, list := range []struct {
		path, set string
		raw       int // entries that have no page, since they have no jid
	}{{"/retries", "retry", 0}, {"/scheduled", "schedule", 0}, {"/morgue", "dead", 2}} {
		members := s.members(list.set)
		seen := map[string]bool{}
		for n := 1; n <= 2; n++ {
			for _, path := range links(b.get(fmt.Sprintf("%s?page=%d", list.path, n)), list.path+"/") {
				if _, jid, _ := strings.Cut(path, "-"); jid != "" {
					seen[path] = true
				}
			}
		}
		if len(seen) != len(members)-list.raw {
			t.Errorf("%s: %d entries have a page, want %d of %d", list.path, len(seen), len(members)-list.raw, len(members))
		}
		for path := range seen {
			_, jid, _ := strings.Cut(path, "-")
			if body := b.get(path); !strings.Contains(body, jid) {
				t.Errorf("%s does not show jid %s", path, jid)
			}
		}
	}
	stop()
	if body := b.get("/busy"); strings.Contains(body, busy) {
		t.Error("a stopped process is shown as busy")
	}
}
