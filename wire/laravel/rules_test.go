package laravel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

var now = time.Unix(1_795_000_000, 0)

func TestParse(t *testing.T) {
	s := &system{Options: Options{Tries: 1}}
	for raw, want := range map[string]string{
		`{"uuid":"u","job":"resize","data":{"id":1},"attempts":0}`:     `resize [{"id":1}] u 0`,
		`{"id":"i","job":"resize@fire","data":[1,2],"attempts":2}`:     `resize [[1,2]] i 2`,
		`{"uuid":"","id":"i","job":"App\\Jobs\\X@run","attempts":"1"}`: `App\Jobs\X@run [null] i 1`,
		`{"job":"x","data":12345678901234567890,"attempts":1}`:         `x [12345678901234567890]  1`,
		`{"job":"x","data":1}`:        `error: "attempts"`,
		`{"job":"x","attempts":null}`: `error: "attempts"`,
		`{"job":"x","attempts":-1}`:   `error: "attempts"`,
		`{"job":"","attempts":1}`:     `error: "job"`,
		`[]`:                          `error: `,
		`{"job":"Illuminate\\Queue\\CallQueuedHandler@call","attempts":0,"data":{"commandName":"App\\J","command":"O:5:\"App\\J\":0:{}"}}`:         `App\J [{"commandName":"App\\J","command":"O:5:\"App\\J\":0:{}"}]  0`,
		`{"job":"Illuminate\\Queue\\CallQueuedHandler@call","attempts":0,"data":{"command":"O:1:\"A\":1:{s:7:\"chained\";a:1:{i:0;s:1:\"x\";}}"}}`: `error: chain`,
		`{"job":"Illuminate\\Queue\\CallQueuedHandler@call","attempts":0,"data":{"batchId":"7","command":"O:1:\"A\":0:{}"}}`:                       `error: batch`,
		`{"job":"Illuminate\\Queue\\CallQueuedHandler@call","attempts":0,"data":{"command":"O:1:\"A\":1:{s:7:\"batchId\";s:1:\"7\";}"}}`:           `error: batch`,
		`{"job":"Illuminate\\Queue\\CallQueuedHandler@call","attempts":0,"data":{"command":"O:34:\"Illuminate\\Queue\\CallQueuedClosure\":0:{}"}}`: `error: closure`,
		`{"job":"Illuminate\\Queue\\CallQueuedHandler@call","attempts":0,"data":{"command":"O:1:\"A\":"}}`:                                         `error: at byte`,
		`{"job":"Illuminate\\Queue\\CallQueuedHandler@call","attempts":0,"data":{"command":"eyJ"}}`:                                                `error: AppKey`,
		`{"job":"Illuminate\\Queue\\CallQueuedHandler@call","attempts":0,"data":[]}`:                                                               `error: "data"`,
		`{"job":"Illuminate\\Queue\\CallQueuedHandler@call","attempts":0,"data":{}}`:                                                               `error: data.command`,
	} {
		p, err := s.parse([]byte(raw), "q")
		if wrong, ok := strings.CutPrefix(want, "error: "); ok {
			harness.ErrorHas(t, raw, err, wrong)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if got := fmt.Sprintf("%s %s %s %d", p.Class(), p.Args(), p.JID(), p.Failures()); got != want || p.Queue() != "q" {
			t.Errorf("%s\nis %s of %s, expected %s of q", raw, got, p.Queue(), want)
		}
	}
}

func TestRelayed(t *testing.T) {
	s := &system{Options: Options{Relay: "failing"}}
	for raw, want := range map[string]string{
		`{"uuid":"u","job":"x","maxTries":null,"data":1,"attempts":0}`:                  `{"uuid":"u","job":"x","maxTries":1,"data":1,"attempts":1}`,
		`{"uuid":"u","job":"x","maxTries":3,"retryUntil":5,"timeoutAt":6,"attempts":1}`: `{"uuid":"u","job":"x","maxTries":3,"retryUntil":null,"timeoutAt":null,"attempts":3}`,
		`{"uuid":"u","job":"x","maxTries":3,"attempts":7}`:                              `{"uuid":"u","job":"x","maxTries":3,"attempts":7}`,
		`junk`:                              "",
		`{"job":"x"}`:                       "",
		"{\"job\":\"\xff\",\"attempts\":0}": "",
		`{"job":"x","data":"\ud83d","attempts":0}`:                          "",
		`{"job":"x","data":1e999,"attempts":0}`:                             "",
		`{"job":"x","data":1` + strings.Repeat("0", 400) + `,"attempts":0}`: "",
	} {
		if got := s.relayed(s.row([]byte(raw), "q", nil, now)); string(got) != want {
			t.Errorf("%s\nis relayed as %s, expected %s", raw, got, want)
		}
	}
	if got := string(s.relayed(s.row([]byte(`{"job":"x","attempts":1}`), "q", nil, now))); !strings.Contains(got, `"uuid":"`) {
		t.Errorf("a job without a uuid is relayed as %s", got)
	}
	f, err := parseRow(s.row([]byte(`{"job":"x","data":"\ud83d","attempts":0}`), "q", errors.New("boom"), now))
	if want := "boom (not relayed: workers of Laravel would destroy it: half of a surrogate pair at byte 19)"; err != nil || f.Exception != want {
		t.Errorf("%v %v, want %s", f, err, want)
	}
	s.Relay = ""
	if got := s.relayed(s.row([]byte(`{"uuid":"u","attempts":0}`), "q", nil, now)); got != nil {
		t.Errorf("without a relay: %s", got)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Backoff: []time.Duration{0, -1}}, "Backoff[1]"},
		{Options{Database: new(-1)}, "Database is -1"},
		{Options{Cache: &Cache{Database: -2}}, "Cache.Database is -2"},
		{Options{AppKey: "x"}, "AppKey"},
	} {
		if _, err := New(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, expected one with %s", err, c.want)
		}
	}
	s := &system{}
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	if _, err := s.newFetcher(fetch.Env{Redis: rdb, Queues: fetch.Strict{"a:delayed"}}); err == nil || !strings.Contains(err.Error(), `"a:delayed"`) {
		t.Errorf("a queue called a:delayed: %v", err)
	}
	if _, err := s.newFetcher(fetch.Env{Redis: redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"x:1"}}), Queues: fetch.Strict{"a"}}); err == nil || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("a cluster: %v", err)
	}
}

func TestPush(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := context.Background()
	c := NewClient(rdb, "p_")
	jobs := make([]Job, 1200)
	for i := range jobs {
		jobs[i] = Job{Queue: "q", Name: "x", Data: i}
	}
	jobs[7] = Job{
		Queue: "q", Name: `App\Jobs\X@run`, Data: map[string]string{"a": "</é>"}, UUID: "u7", MaxTries: 3, MaxExceptions: 2,
		Backoff: []time.Duration{time.Second, 1500 * time.Millisecond}, Timeout: 1500 * time.Millisecond, FailOnTimeout: true,
	}
	jobs[8].At = time.Now().Add(time.Hour)
	uuids, err := c.Push(ctx, jobs...)
	if err != nil || len(uuids) != len(jobs) || uuids[7] != "u7" || len(uuids[6]) != 36 {
		t.Fatalf("%d uuids, %v", len(uuids), err)
	}
	if q, n := rdb.LLen(ctx, "p_queues:q").Val(), rdb.LLen(ctx, "p_queues:q:notify").Val(); q != 1199 || n != 1199 {
		t.Errorf("%d jobs and %d tokens, expected 1199", q, n)
	}
	got := rdb.LIndex(ctx, "p_queues:q", 7).Val()
	if head, _, _ := strings.Cut(got, `"createdAt"`); head != `{"uuid":"u7","displayName":"App\\Jobs\\X","job":"App\\Jobs\\X@run","maxTries":3,"maxExceptions":2,"failOnTimeout":true,"backoff":"1,2","timeout":2,"data":{"a":"</é>"},` {
		t.Errorf("job 7 is %s", got)
	}
	if z := rdb.ZRangeWithScores(ctx, "p_queues:q:delayed", 0, -1).Val(); len(z) != 1 || z[0].Score != float64(int64(z[0].Score)) {
		t.Errorf("delayed %v", z)
	}
	for _, bad := range []struct {
		j    Job
		want string
	}{
		{Job{Name: "x"}, "Queue"}, {Job{Queue: "q"}, "Name"}, {Job{Queue: "q", Name: "x", MaxTries: -1}, "MaxTries"},
		{Job{Queue: "q", Name: "x", Data: func() {}}, "Data"}, {Job{Queue: "q", Name: "x", Backoff: []time.Duration{-1}}, "Backoff[0]"},
		{Job{Queue: "q:notify", Name: "x"}, "q:notify"},
		{Job{Queue: "q", Name: "x", Data: json.RawMessage(`["a\ud83d"]`)}, "Data: workers of Laravel would destroy it: half of a surrogate pair at byte 3"},
		{Job{Queue: "q", Name: "x", Data: json.RawMessage(`[1,1e999]`)}, "Data: workers of Laravel would destroy it: number beyond the largest double, 1.7976931348623157e+308 at byte 3"},
	} {
		if _, err := c.Push(ctx, Job{Queue: "other", Name: "x"}, bad.j); err == nil || !strings.Contains(err.Error(), bad.want) || !strings.Contains(err.Error(), "job 1") {
			t.Errorf("%+v: error %v, expected one with %s", bad.j, err, bad.want)
		}
	}
	for raw, want := range map[string]string{
		`junk`: "byte 0", `{"job":"x"}`: "attempts", `{"attempts":0}`: `"job"`,
		`{"job":"x","attempts":0,"data":"\udc00"}`:                          "byte 32",
		`{"job":"x","attempts":0,"data":-1e999}`:                            "byte 31",
		`{"job":"x","attempts":0,"data":1` + strings.Repeat("0", 400) + `}`: "byte 31",
		"{\"job\":\"x\",\"attempts\":0,\"data\":\"\xff\"}":                  "byte 32",
	} {
		if err := c.PushRaw(ctx, Raw{Queue: "other", Payload: []byte(raw)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: error %v, expected one with %s", raw, err, want)
		}
	}
	if n := rdb.Exists(ctx, "p_queues:other").Val(); n != 0 {
		t.Error("a job was pushed beside one that is none")
	}
}

func TestFailedJobs(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := context.Background()
	c, s := NewClient(rdb, "p_"), &system{Options: Options{Connection: "redis"}}
	for i := range 250 {
		raw := fmt.Appendf(nil, `{"uuid":"u%d","job":"x","retryUntil":5,"troupeExceptions":1,"data":1,"attempts":3}`, i)
		if i == 0 {
			raw = []byte("\xffjunk\n\x00")
		}
		rdb.ZAdd(ctx, "p_troupe:laravel:failed", redis.Z{Score: float64(i), Member: s.row(raw, "q", errors.New("boom"), now)})
	}
	all, err := c.Failed(ctx, 0, 300)
	if err != nil || len(all) != 250 || all[0].UUID != "u249" || all[249].Exception != "boom" || string(all[249].Payload) != "\xffjunk\n\x00" || !all[1].FailedAt.Equal(now) {
		t.Fatalf("%d failed jobs, %v: %+v", len(all), err, all[:1])
	}
	if some, err := c.Failed(ctx, 10, 0); err != nil || len(some) != 100 || some[0].UUID != "u239" {
		t.Errorf("%d, %v", len(some), err)
	}
	harness.Check(t, c.Retry(ctx, "u1"))
	if got := rdb.LRange(ctx, "p_queues:q", 0, -1).Val(); !slices.Equal(got, []string{`{"uuid":"u1","job":"x","retryUntil":null,"data":1,"attempts":0}`}) || rdb.LLen(ctx, "p_queues:q:notify").Val() != 1 {
		t.Errorf("retried: %q", got)
	}
	for _, id := range []string{"u1", "none"} {
		if err := c.Retry(ctx, id); !errors.Is(err, ErrNoFailedJob) {
			t.Errorf("retry of %s: %v", id, err)
		}
	}
	if err := c.Retry(ctx, all[249].ID); err == nil {
		t.Error("what is no job was retried")
	}
	harness.Check(t, errors.Join(c.Forget(ctx, all[249].ID), c.Forget(ctx, "u2")))
	harness.Equal(t, "are left", rdb.ZCard(ctx, "p_troupe:laravel:failed").Val(), 247)
}
