package conformance

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// site is one database with Go on one side of it and Ruby on the other.
type site struct {
	t   *testing.T
	rdb *redis.Client
	url string

	client *client.Client
	notes  *redis.Client // another database, where the Go side writes down what it runs
	book   string        // its URL
	seen   []event
}

// newSite makes the site of a test that shares nothing with others.
func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	return secondSite(t)
}

// secondSite is for a test that is parallel already.
func secondSite(t *testing.T) *site {
	t.Helper()
	rdb, url := redistest.New(t)
	return siteOf(t, rdb, url)
}

func siteOf(t *testing.T, rdb *redis.Client, url string) *site {
	t.Helper()
	notes, book := redistest.New(t)
	return &site{t: t, rdb: rdb, url: url, client: client.New(rdb), notes: notes, book: book}
}

// ruby evaluates a script on this database; see the function.
func (s *site) ruby(script string, out any, args ...any) {
	s.t.Helper()
	ruby(s.t, s.url, script, out, args...)
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// push pushes a job with troupe's client and returns its jid.
func (s *site) push(class, args string, opts ...client.Option) string {
	s.t.Helper()
	jid, err := s.client.PushJSON(s.t.Context(), class, json.RawMessage(args), opts...)
	s.must(err)
	return jid
}

// put lays raw bytes into a queue, the first to be fetched first.
func (s *site) put(queue string, raws ...string) {
	s.t.Helper()
	for _, raw := range raws {
		s.must(s.rdb.LPush(s.t.Context(), "queue:"+queue, raw).Err())
	}
}

// queue is what waits in a queue, next first.
func (s *site) queue(name string) []string {
	s.t.Helper()
	raws, err := s.rdb.LRange(s.t.Context(), "queue:"+name, 0, -1).Result()
	s.must(err)
	slices.Reverse(raws)
	return raws
}

// members of a sorted set, lowest score first.
func (s *site) members(set string) []string {
	s.t.Helper()
	raws, err := s.rdb.ZRange(s.t.Context(), set, 0, -1).Result()
	s.must(err)
	return raws
}

// awaitSize waits until a sorted set has n members.
func (s *site) awaitSize(set string, n int) {
	s.t.Helper()
	testkit.Await(s.t, fmt.Sprintf("%d members in %s", n, set), func() bool { return len(s.members(set)) == n })
}

// awaitEmpty waits until a queue is empty and no job is in progress in Go.
func (s *site) awaitEmpty(queue string) {
	s.t.Helper()
	testkit.Await(s.t, "queue "+queue+" is worked off", func() bool {
		lists, err := redistest.InProgress(s.t.Context(), s.rdb)
		return err == nil && len(s.queue(queue)) == 0 && len(lists) == 0
	})
}

// find returns the bytes of the job in a sorted set, and its score.
func (s *site) find(set, jid string) (raw string, score float64) {
	s.t.Helper()
	for _, raw := range s.members(set) {
		if strings.Contains(raw, `"jid":"`+jid+`"`) {
			return raw, s.rdb.ZScore(s.t.Context(), set, raw).Val()
		}
	}
	return "", 0
}

// awaitIn waits until the job is in a sorted set.
func (s *site) awaitIn(set, jid string) (raw string, score float64) {
	s.t.Helper()
	testkit.Await(s.t, "job "+jid+" is in "+set, func() bool { raw, score = s.find(set, jid); return raw != "" })
	return raw, score
}

// due makes a member of a sorted set due now.
func (s *site) due(set, raw string) {
	s.t.Helper()
	now := scores.Of(time.Now())
	s.must(s.rdb.ZAddXX(s.t.Context(), set, redis.Z{Score: now, Member: raw}).Err())
}

// payload parses a job.
func payload(t testing.TB, raw string) *troupe.Payload {
	t.Helper()
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return p
}

// field is the raw text of a field, "" if there is none.
func field(t testing.TB, raw, key string) string {
	t.Helper()
	text, _ := payload(t, raw).Get(key)
	return string(text)
}

// sameFields wants the fields of two jobs to be the same text, but for those named.
func sameFields(t testing.TB, was, is string, except ...string) {
	t.Helper()
	a, b := payload(t, was), payload(t, is)
	for key := range a.Keys() {
		before, _ := a.Get(key)
		after, ok := b.Get(key)
		if !slices.Contains(except, key) && (!ok || string(before) != string(after)) {
			t.Errorf("%s was %s, is %s", key, before, after)
		}
	}
}

// entry is what Ruby's API says of a member of a sorted set.
type entry struct {
	JID       string
	Class     string
	Display   string `json:"display_class"`
	Queue     string
	Item      map[string]any
	Score     float64
	At        float64
	Backtrace []string
}

// entry asks Ruby's API for a job in RetrySet, ScheduledSet or DeadSet.
func (s *site) entry(set, jid string) entry {
	s.t.Helper()
	var found []entry
	s.ruby(`Sidekiq.const_get(args[0]).new.select { |e| e.jid == args[1] }.map { |e| entry(e) }`, &found, set, jid)
	if len(found) != 1 {
		s.t.Fatalf("Ruby's %s has %d entries with jid %s", set, len(found), jid)
	}
	return found[0]
}

// rubyStats are Ruby's Stats.
type rubyStats struct{ Processed, Failed, Scheduled, Retries, Dead, Enqueued, Processes, Busy int }

func (s *site) stats() (r rubyStats) {
	s.t.Helper()
	s.ruby(`s = Sidekiq::Stats.new
{Processed: s.processed, Failed: s.failed, Scheduled: s.scheduled_size, Retries: s.retry_size, Dead: s.dead_size,
 Enqueued: s.enqueued, Processes: s.processes_size, Busy: s.workers_size}`, &r)
	return r
}

func numbered(n int) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for i := range n {
			if !yield([]any{i}) {
				return
			}
		}
	}
}

// inQueue and with are options of a push.
func inQueue(name string) client.Option        { return client.Queue(name) }
func with(key string, value any) client.Option { return client.Set(key, value) }
