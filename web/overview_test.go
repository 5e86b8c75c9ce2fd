package web

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/internal/tree"
)

// beat writes what a process tells.
func (s *site) beat(id string, at time.Time, p *beat.Pulse, queues string) {
	s.t.Helper()
	ctx, pipe := s.t.Context(), s.rdb.Pipeline()
	pipe.SAdd(ctx, "processes", id)
	pipe.HSet(ctx, id, "info", fmt.Sprintf(`{"hostname":"h","pid":1,"identity":%q,"concurrency":5,"queues":[%s],"tag":"shop"}`, id, queues),
		"busy", 2, "concurrency", 5, "beat", at.Unix(), "quiet", "false", "rss", 2048)
	if p != nil {
		p.At = float64(at.Unix())
		beat.WritePulse(ctx, pipe, id, p.JSON(), time.Now())
	}
	harness.Must(pipe.Exec(ctx))(s.t)
}

func TestEmpty(t *testing.T) {
	s := start(t)
	contains(t, "the first page", s.get("/"), "Nothing was ever pushed here", "troupe push")
	contains(t, "the queues", s.get("/queues"), "A queue is there as soon as a job is pushed")
}

// An outbox has a row on the first page, with who relays it; what is wrong with one is a problem.
func TestOutboxesOnTheFirstPage(t *testing.T) {
	if strings.Contains(start(t).get("/"), "Outboxes") {
		t.Error("there are outboxes on the page of a fleet that has none")
	}
	s, now := start(t), time.Now()
	s.beat("a:1:leads", now, &beat.Pulse{Phase: "running", Outboxes: map[string]tree.Relay{"shop": {State: tree.RelayLeads, Since: now, Pushed: 1234567, Waiting: 3, Refused: 2, Reason: "class is missing"}}}, `"mail"`)
	s.beat("b:1:waits", now, &beat.Pulse{Phase: "running", Outboxes: map[string]tree.Relay{"shop": {State: tree.RelayWaits, Since: now}}}, `"mail"`)
	s.beat("c:1:down", now, &beat.Pulse{Phase: "running", Outboxes: map[string]tree.Relay{"other": {State: tree.RelayNoDatabase, Since: now, Error: "connection refused, password=sesame"}}}, `"mail"`)
	text := s.get("/")
	contains(t, "the first page", text, "Outboxes", "a:1:leads", "and 1 ready to take over", "1,234,567", "class is missing", "no_database: connection refused",
		"No process relays the outbox other: its database is away, or refuses (connection refused", "2 rows of the outbox shop can be no jobs")
	if strings.Contains(text, "sesame") {
		t.Error("a password is on the page")
	}
}

// What is wrong is said in sentences, the worst first.
func TestProblems(t *testing.T) {
	s := start(t)
	now, ctx := time.Now(), t.Context()
	for queue, n := range map[string]int{"nobody": 2, "held-up": 1, "mail": 1} {
		for range n {
			harness.Must(client.New(s.rdb).PushClass(ctx, "A", nil, client.Queue(queue)))(t)
		}
	}
	s.rdb.SAdd(ctx, "paused", "held-up")
	s.rdb.ZAdd(ctx, "retry", redis.Z{Score: float64(now.Add(-10 * time.Minute).Unix()), Member: `{"class":"A","args":[],"jid":"late","queue":"mail"}`})
	s.beat("a:1:ruby", now, nil, `"mail"`)
	s.beat("b:1:storm", now, &beat.Pulse{
		Phase: "running", Recent: 12, Failure: "default/processor-3: <boom>", Unresponsive: 2,
		Actors: map[string]string{"poller": "restarting"}, Capsules: []beat.PulseCapsule{{Name: "default", Busy: 1, Down: 3}},
	}, `"mail"`)
	s.beat("e:1:down", now, &beat.Pulse{Phase: "running", Capsules: []beat.PulseCapsule{{Name: "default", Down: 3}}}, `"mail"`)
	for _, id := range []string{"f:1:x", "g:1:x"} {
		s.beat(id, now, &beat.Pulse{Phase: "running", Recent: 6, Failure: "fetcher: no card"}, `"mail"`)
	}
	s.beat("c:1:silent", now.Add(-40*time.Second), &beat.Pulse{Phase: "running"}, `"mail"`)
	s.beat("d:1:gone", now.Add(-2*time.Minute), &beat.Pulse{Phase: "running", Capsules: []beat.PulseCapsule{{Busy: 4}}}, `"mail"`)
	s.rdb.Del(ctx, "d:1:gone")
	text := s.get("/")
	contains(t, "the page", text,
		"The queue nobody has 2 jobs, and nobody listens.", "The queue held-up is paused, and nobody listens: 1 job.",
		"The first job of the set retry is overdue by 10m, and nobody puts it into its queue.",
		"Actors of shop (b:1:storm) crash again and again: 12 restarts within a minute. The last failure: default/processor-3: &lt;boom&gt;.",
		"In shop (b:1:storm) the actor poller is restarting.", "In shop (e:1:down) the capsule default has 3 processors down.", "shop (b:1:storm) has 2 unresponsive jobs: cancelled, and still at work.",
		"shop (c:1:silent) is silent: its last beat was", "d:1:gone is gone: its last beat was 2m ago, with 4 jobs.", `<a href="/tree/b:1:storm">Open the process`, `<a href="/queues/nobody">Open the queue`, `<a href="/retries">Open retries`,
		`The same failure in 2 of 5 processes: 12 restarts within a minute. The last failure: fetcher: no card. <a href="/tree">Open the tree`)
	hasNot(t, "the page", text, "a:1:ruby is", "In shop (b:1:storm) the capsule", "<boom>", "queue mail,")
	worst, least := strings.Index(text, "d:1:gone is gone"), strings.Index(text, "held-up is paused")
	if worst > least || worst < 0 {
		t.Error("the worst is not first")
	}
}

// What the doctor has found stands on the first page, with when it looked, and leads to what it is about. A page does
// not wait for it.
func TestTheDoctorOnTheOverview(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	s.rdb.SAdd(ctx, "cron_jobs", "cron_job:nightly")
	s.rdb.HSet(ctx, "cron_job:nightly", "name", "nightly", "klass", "Report", "cron", "61 * * * *", "status", "enabled", "message", `{"class":"Report","queue":"default","args":[]}`)
	var text string
	harness.Await(t, "the doctor's word", func() bool {
		text = s.get("/")
		return !strings.Contains(text, "The doctor has not looked at Redis yet.")
	})
	contains(t, "the page", text, "The doctor looked at Redis <time", "<code>troupe doctor</code>",
		"The periodic job nightly pushes nothing: it cannot be carried out", `<a href="/periodic/nightly">Open the periodic job</a>`)
	contains(t, "the twin", string(s.data("/index.json")), `"audited_at":"20`)
}

// Of many problems of a kind the first ones are told.
func TestManyProblems(t *testing.T) {
	s := start(t)
	for i := range 30 {
		s.rdb.SAdd(t.Context(), "queues", fmt.Sprint("q", i))
		s.rdb.LPush(t.Context(), fmt.Sprint("queue:q", i), `{"class":"A","args":[],"jid":"x"}`)
	}
	text := s.get("/")
	harness.Equal(t, "are told", strings.Count(text, "and nobody listens."), 5)
	contains(t, "the page", text, "And 25 more like these (nobody listens).", "And 22 more queues")
}

// When Redis goes away pages show what was, and say so; without anything that was they say what to do.
func TestRedisAway(t *testing.T) {
	server := redistest.Start(t)
	own := func(o *Options) {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		o.Redis = rdb
	}
	s := start(t, own)
	s.get("/")
	server.Kill()
	for deadline := time.Now().Add(20 * time.Second); ; {
		text := s.get("/")
		if strings.Contains(text, "Redis has not answered since") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not said:\n%s", text)
		}
		_, next := s.h.sampler.touch()
		<-next
	}
	cold := start(t, own)
	status, text, _ := cold.do(http.MethodGet, "/", "")
	harness.Equal(t, "without anything known", status, http.StatusServiceUnavailable)
	contains(t, "the page", text, "Redis does not answer", "See whether it runs")
}

// A page hears within some looks that what it shows has changed.
func TestLive(t *testing.T) {
	s := start(t)
	s.fixture()
	s.get("/queues")
	r := harness.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+"/live?topic=queue:a%2Fb.json", nil))(t)
	answer := harness.Must(s.Do(r))(t)
	defer func() { _ = answer.Body.Close() }()
	if answer.Header.Get("X-Accel-Buffering") != "no" || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("headers: %v", answer.Header)
	}
	lines := bufio.NewScanner(answer.Body)
	pushed := false
	for lines.Scan() {
		if !pushed {
			pushed = true
			s.fixture()
		}
		if lines.Text() == "event: change" {
			break
		}
	}
	if !lines.Scan() || lines.Text() != "data: queue:a/b.json" {
		t.Errorf("got %q: %v", lines.Text(), lines.Err())
	}
	s.h.Close()
	for lines.Scan() { // it ends
		continue
	}
	harness.Equal(t, "connections are open", s.h.openNow(), 0)
}
