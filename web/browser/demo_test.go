package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/web"
)

// shop is a dashboard of a shop on Rails that is on its way to Go: two processes of real Ruby, and
// six of troupe of which one is dead, one has a job that does not end and two are in a storm.
type shop struct {
	*site
	users  string // address of the same dashboard where people sign in
	task   string // a bulk task that has run
	job    string // a job that is to be tried again
	ticks  int
	beaten chan struct{}
}

// openShop starts the fleet, and waits so long before it fills the queues, so that the charts have numbers.
func openShop(t testing.TB, before time.Duration) *shop {
	t.Helper()
	s := &shop{site: start(t), beaten: make(chan struct{})}
	s.sidekiq("app-1", "-c", "5", "-q", "search", "-q", "images")
	quiet := s.sidekiq("app-2", "-c", "5", "-q", "catalog")
	quiet.Signal(syscall.SIGTSTP)
	s.rdb.ConfigSet(t.Context(), "appendonly", "yes") // else there is one more trouble, that nothing is written to disk
	t.Cleanup(func() { s.rdb.ConfigSet(context.Background(), "appendonly", "no") })
	s.rdb.MSet(t.Context(), keys.StatProcessed, 4_812_377, keys.StatFailed, 31_902)
	go s.live()
	<-s.beaten
	s.look("/") // it remembers from now on
	for end := time.Now().Add(before); time.Now().Before(end); time.Sleep(5 * time.Second) {
		s.look("/")
	}
	s.metrics()
	s.history()
	s.ruby(`shop
		push(jid(5000), "Images::Thumbnail", [{ "product" => 300, "size" => "2x" }], queue: "images")
		push(jid(5001), "Images::Thumbnail", [{ "product" => 301, "size" => "1x" }], queue: "images")
		push(jid(5002), "Search::Reindex", ["Product", 300], queue: "search")
		push(jid(5003), "Search::Suggest", ["caf\u00e9"], queue: "search")
		ago(7200) { 240.times { |i| Sidekiq::DeadSet.new.kill(Sidekiq.dump_json("class" => "Legacy::Ping", "args" => [i], "jid" => jid(6000 + i), "queue" => "default", "error_class" => "RuntimeError", "error_message" => "gone"), notify_failure: false) } }`)
	s.rdb.SAdd(t.Context(), keys.Paused, "imports")
	testkit.Await(t, "Ruby has run what it can", func() bool {
		return len(s.entries(keys.Retry, "Search::Reindex"))+len(s.entries(keys.Dead, "Search::Suggest")) == 2
	})
	s.job = s.entries(keys.Retry, "Stripe::CardError")[0]
	s.rdb.Set(t.Context(), shopLock, s.job, 24*time.Hour)
	s.limit()
	s.batch()
	s.periodic()
	s.act()
	testkit.Await(t, "the dashboard has looked at the queues", func() bool { return strings.Contains(s.look("/"), "The queue imports is paused") })
	return s
}

// shopLock is the lock of a unique job that is to be retried.
const shopLock = keys.LockPrefix + "8d3fd1a3f3c1e7b1f1c7f2f3b0a99c5e"

// shopBatch is a batch of three jobs that is open; one waits, one is nowhere, and one is done.
const shopBatch = "b47c40000000000000000001"

func (s *shop) batch() {
	s.t.Helper()
	now := time.Now().Unix()
	s.rdb.HSet(s.t.Context(), keys.Batch(shopBatch), "total", 3, "pending", 2, "unrun", 2, "name", "import of May", "made", now-3600, "last", now-60, "due", 0,
		"to:success", "mailers", "on:success", `{"class":"Reports::Monthly","queue":"mailers","args":[],"jid":"ca11bac40000000000000001"`)
	s.rdb.SetBit(s.t.Context(), keys.BatchDone(shopBatch), 0, 1)
	s.rdb.ZAdd(s.t.Context(), keys.Batches, redis.Z{Score: float64(now + 86400), Member: shopBatch})
	s.rdb.ZAdd(s.t.Context(), keys.Schedule, redis.Z{Score: float64(now + 7200), Member: fmt.Sprintf(`{"class":"Reports::Monthly","queue":"mailers","args":[],"jid":"5eed00000000000000000009","created_at":%d,"t_batch":"%s:1"}`, now, shopBatch)})
}

// limit defines a limit that was set to 0 by hand, rests, and holds two jobs, one of a key.
func (s *shop) limit() {
	s.t.Helper()
	base := keys.LimitBase("", false)
	s.rdb.HSet(s.t.Context(), keys.Limits(base), "stripe", "0 pinned 5 breaker 3 600", "mailgun", "20 0.01")
	s.rdb.HSet(s.t.Context(), keys.Rest(base, "stripe"), "ends", time.Now().Add(10*time.Minute).Unix())
	for i, rule := range []string{"stripe", "stripe:acct_1GqIC8"} {
		at, jid := float64(time.Now().Add(-time.Hour).Unix()), fmt.Sprintf("5eed0000000000000000000%d", i)
		member := fmt.Sprintf(`%d.%d ["queue:payments","",%q,%q]`, int64(at)*1e6, i, jid, rule) + "\n" +
			fmt.Sprintf(`{"class":"Billing::Charge","queue":"payments","args":[%d],"jid":%q,"created_at":%.0f,"enqueued_at":%.0f}`, i, jid, at, at)
		s.rdb.ZAdd(s.t.Context(), keys.Held(base, rule), redis.Z{Score: at, Member: member})
		s.rdb.ZAdd(s.t.Context(), keys.HeldRules(base), redis.Z{Score: at, Member: rule})
	}
}

// entries are the ids of the jobs of a set that contain a text.
func (s *site) entries(set, part string) (jids []string) {
	s.t.Helper()
	for _, text := range s.rdb.ZRange(s.t.Context(), set, 0, -1).Val() {
		var job struct{ JID string }
		if err := json.Unmarshal([]byte(text), &job); err != nil {
			s.t.Fatal(err)
		}
		if strings.Contains(text, part) {
			jids = append(jids, job.JID)
		}
	}
	return jids
}

// look reads a page without the browser.
func (s *shop) look(path string) string {
	s.t.Helper()
	status, text, _ := s.send(http.MethodGet, path, nil)
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d\n%s", path, status, text)
	}
	return text
}

// periodic makes the jobs that the clock pushes: one that is as it should be, one that is disabled, and one that is
// stuck, with a long name.
func (s *shop) periodic() {
	s.t.Helper()
	ctx, i := s.t.Context(), inspect.New(s.rdb)
	err := i.SavePeriodic(ctx,
		troupe.Periodic{Name: "reports.monthly", Cron: "0 4 1 * * Europe/Berlin", Class: "Reports::Monthly", Missed: troupe.MissedLast, Args: []any{map[string]any{"scope": "all", "token": "tk_5d1f"}}, Description: "the numbers of the month, for the owners"},
		troupe.Periodic{Name: "carts.sweep", Cron: "every 15m", Class: "Carts::Sweep", Disabled: true},
		troupe.Periodic{Name: "the prices of all suppliers, as their files have them, once a night", Cron: "30 2 * * mon-fri Asia/Kolkata", Class: "Imports::Supplier", Queue: "imports"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.rdb.HSet(ctx, keys.PeriodicJob("default", "the prices of all suppliers, as their files have them, once a night", false), "cron", "30 2 * * mon-fri Asia/Calcuttaa")
	for range 3 {
		if j, err := i.PeriodicJob(ctx, "reports.monthly", ""); err != nil {
			s.t.Fatal(err)
		} else if _, err := j.Push(ctx); err != nil {
			s.t.Fatal(err)
		}
	}
}

// act does what the audit and the tasks show.
func (s *shop) act() {
	s.t.Helper()
	for _, name := range []string{"mailers", "imports"} {
		s.send(http.MethodPost, "/queues/"+name+"/pause", nil)
	}
	s.send(http.MethodPost, "/queues/mailers/unpause", nil)
	s.send(http.MethodPost, "/processes/stop", url.Values{"count": {"7"}}, "Cookie", "who=otto")
	_, _, s.task = s.send(http.MethodPost, "/dead/all", url.Values{"do": {"delete"}, "class": {"Legacy::Ping"}, "count": {"240"}, "typed": {"240"}})
	testkit.Await(s.t, "the task ends", func() bool {
		return strings.Contains(s.look(s.task), "240 of 240") && strings.Contains(s.look("/tasks"), "done")
	})

	file := filepath.Join(s.t.TempDir(), "users")
	line, _, err := web.TokenLine("ci", web.Operator, time.Time{})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.users = s.serve(web.Options{Users: file}, func(h http.Handler) http.Handler { return h })
}

// history has the processes tell what has happened.
func (s *shop) history() {
	s.t.Helper()
	now := time.Now()
	for id, records := range map[string][]flight.Record{
		"worker-1:1184:5f0c21d9e8a7": {
			{At: now.Add(-52 * time.Minute), Kind: job.Failed.Kind(), JID: "9f3a0d2c55b1e07a61c4d802", Class: "Webhooks::Deliver", Queue: "default", Capsule: "default", Text: "Post \"https://partner.example/hooks/42\": context deadline exceeded"},
			{At: now.Add(-52 * time.Minute), Kind: job.Retried.Kind(), JID: "9f3a0d2c55b1e07a61c4d802", Class: "Webhooks::Deliver", Queue: "default", Capsule: "default", Text: "attempt 6 in 20m50s"},
			{At: now.Add(-31 * time.Minute), Kind: flight.Rescued, Text: "3 jobs of dead processes put back: worker-7:977:0aa1be77c2f4"},
		},
		"worker-2:1203:a41be07d3c96": {
			{At: now.Add(-17 * time.Minute), Kind: flight.Fenced, Capsule: "default", Text: "4 jobs cancelled, 1 results refused"},
			{At: now.Add(-17 * time.Minute), Kind: job.Cancelled.Kind(), JID: "c07e55aa1f2b9d3084e6710c", Class: "Inventory::Sync", Queue: "default", Capsule: "default", Text: "fenced: another process has the job"},
			{At: now.Add(-9 * time.Minute), Kind: flight.Configured, Capsule: "mailers", Text: "concurrency 4 is now 6"},
		},
		"worker-5:1260:77d0c95b1e42": {
			{At: now.Add(-4 * time.Minute), Kind: job.Cancelled.Kind(), JID: "41d7b0e92c8856fa03be17d4", Class: "Reports::Monthly", Queue: "default", Capsule: "default", Text: "timeout of 2m0s"},
			{At: now.Add(-4*time.Minute + 3*time.Second), Kind: job.Unresponsive.Kind(), JID: "41d7b0e92c8856fa03be17d4", Class: "Reports::Monthly", Queue: "default", Capsule: "default", Text: "timeout of 2m0s"},
		},
	} {
		if err := flight.Write(s.t.Context(), s.rdb, id, records); err != nil {
			s.t.Fatal(err)
		}
	}
}

// usage is what a class does in a minute: runs, failures in 10,000 runs, and the bucket of its
// usual run time.
var usage = []struct {
	class        string
	runs, failed float64
	bucket       int
	millis       float64
}{
	{"Orders::Confirmation", 64, 40, 4, 82}, {"Webhooks::Deliver", 51, 610, 7, 280}, {"Inventory::Sync", 120, 25, 1, 24}, {"Payments::Capture", 22, 180, 10, 920},
	{"Images::Thumbnail", 34, 0, 11, 1450}, {"Search::Reindex", 40, 320, 6, 190}, {"Carts::Remind", 15, 90, 3, 55}, {"Newsletter::Send", 80, 30, 5, 120}, {"Reports::Monthly", 0.2, 900, 19, 38_000},
}

// metrics writes what the classes have done in three days, as Sidekiq 8 does.
func (s *shop) metrics() {
	s.t.Helper()
	ctx, now, pipe := s.t.Context(), time.Now(), s.rdb.Pipeline()
	fill := func(key string, at time.Time, minutes float64, times bool) {
		day := 0.75 + 0.45*math.Sin(2*math.Pi*(at.Sub(at.Truncate(24*time.Hour)).Hours()-9)/24)
		for i, u := range usage {
			wave := 1 + 0.25*math.Sin(float64(at.Unix()/60)/7+float64(i))
			runs := int64(u.runs*day*wave*minutes + 0.5)
			if runs == 0 {
				continue
			}
			failed := int64(float64(runs) * u.failed / 10_000 * (1 + math.Sin(float64(at.Unix()/60)/11)))
			pipe.HIncrBy(ctx, key, u.class+"|p", runs)
			pipe.HIncrBy(ctx, key, u.class+"|f", failed)
			pipe.HIncrBy(ctx, key, u.class+"|ms", int64(float64(runs-failed)*u.millis))
			if times {
				histogram := make([]byte, 52)
				for off, part := range []float64{0.08, 0.19, 0.4, 0.18, 0.1, 0.04, 0.01} {
					at := min(max(u.bucket-2+off+int(wave*1.2), 0), 25)
					n := int(float64(runs-failed)*part + 0.5)
					histogram[2*at], histogram[2*at+1] = byte(n>>8), byte(n)
				}
				pipe.Set(ctx, keys.Histogram8(u.class, at), histogram, 8*time.Hour)
			}
		}
	}
	for at := now.Add(-72 * time.Hour).Truncate(10 * time.Minute); at.Before(now); at = at.Add(10 * time.Minute) {
		fill(keys.TenMinutes8(at), at, 10, false)
	}
	for at := now.Add(-8 * time.Hour).Truncate(time.Minute); at.Before(now); at = at.Add(time.Minute) {
		fill(keys.Counters8(at), at, 1, true)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// live has the processes of troupe beat until the test ends.
func (s *shop) live() {
	for ctx := s.t.Context(); ; s.ticks++ {
		now, pipe := time.Now(), s.rdb.Pipeline()
		for i := range crew {
			crew[i].beat(ctx, pipe, now, s.ticks)
		}
		runs := 34 + 9*math.Sin(float64(s.ticks)/9) + 5*math.Sin(float64(s.ticks)/2.3)
		pipe.IncrBy(ctx, keys.StatProcessed, int64(5*runs))
		pipe.IncrBy(ctx, keys.StatFailed, int64(6+4*math.Sin(float64(s.ticks)/5)))
		if _, err := pipe.Exec(ctx); err != nil && ctx.Err() == nil && err != redis.Nil { //nolint:errorlint // go-redis returns it bare
			panic(fmt.Sprint("the fleet of the shop: ", err))
		}
		if s.ticks == 0 {
			for i := range crew {
				go crew[i].obey(ctx, s.rdb)
			}
			close(s.beaten)
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return
		}
	}
}
