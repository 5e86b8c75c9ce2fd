package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// event is what a worker writes down about a job, in list events.
type event struct {
	What    string // start, end, death
	At      int64  // ns since the epoch
	PID     int
	JID     string
	Class   string
	Queue   string
	Args    string // raw text
	Payload string // the bytes as the handler got them
	Error   string // for end: of the handler; for death
}

const (
	eventsKey = "e2e:events" // list
	begunKey  = "e2e:begun"  // hash: jid -> how often it has begun
)

// records is what the workers of a test write down.
type records struct {
	t    testing.TB
	rdb  *redis.Client
	url  string
	seen []event
}

func newRecords(t testing.TB) *records {
	t.Helper()
	rdb, url := redistest.New(t)
	return &records{t: t, rdb: rdb, url: url}
}

// all returns the events so far; what was read once is kept.
func (r *records) all() []event {
	r.t.Helper()
	texts := harness.Must(r.rdb.LRange(r.t.Context(), eventsKey, int64(len(r.seen)), -1).Result())(r.t)
	for _, text := range texts {
		var e event
		harness.OK(r.t, json.Unmarshal([]byte(text), &e))
		r.seen = append(r.seen, e)
	}
	return r.seen
}

// find returns the events of one kind and job; "" means any.
func (r *records) find(what, jid string) []event {
	r.t.Helper()
	var out []event
	for _, e := range r.all() {
		if (what == "" || e.What == what) && (jid == "" || e.JID == jid) {
			out = append(out, e)
		}
	}
	return out
}

// await waits for n events of one kind and job, on and on as long as there are
// more and more within the limit.
func (r *records) await(limit time.Duration, n int, what, jid string) (found []event) {
	r.t.Helper()
	for seen := -1; len(found) < n; seen = len(found) {
		harness.AwaitFor(r.t, limit, fmt.Sprintf("%d %s events of job %q, after %d", n, what, jid, max(seen, 0)), func() bool {
			found = r.find(what, jid)
			return len(found) > max(seen, 0) || len(found) >= n
		})
	}
	return found
}

// A process that has only started, gone quiet and stopped leaves no key of its own.
func TestAQuietLifeLeavesNoEvents(t *testing.T) {
	s := testkit.NewServer(t)
	p := daemonSoon(t, s.URL(0), "handlers: {NoOp: {builtin: noop}}\n")
	testkit.Await(t, "it beats", func() bool { return s.Client.SCard(t.Context(), "processes").Val() == 1 })
	p.Stop(soon)
	if left := s.Client.Keys(t.Context(), "troupe:flight*").Val(); len(left) != 0 {
		t.Errorf("it has left %q", left)
	}
}
