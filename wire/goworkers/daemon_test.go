package goworkers_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/wire/goworkers"
)

// seen notes jobs.
type seen struct {
	mu   sync.Mutex
	args []string
}

func (s *seen) add(p *troupe.Payload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.args = append(s.args, string(p.Args()))
}

func (s *seen) sorted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.args))
}

func TestADaemonRunsItBesideSidekiq(t *testing.T) {
	for _, ns := range []string{"", "app"} {
		t.Run("namespace "+ns, func(t *testing.T) {
			server := testkit.NewServer(t)
			ctx := t.Context()
			rdb := server.Client
			prefix := ""
			if ns != "" {
				prefix = ns + ":"
			}
			var jobs troupe.Registry
			var mails, sums, rubies seen
			fails := make(chan struct{})
			troupe.HandleClass(&jobs, "Mail", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error { mails.add(p); return nil }))
			troupe.HandleClass(&jobs, "Add", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
				sums.add(p)
				if string(p.Args()) == `["fail"]` && p.Failures() < 1 {
					return errors.New("no")
				}
				if string(p.Args()) == `["wait"]` {
					<-fails
				}
				return nil
			}))
			troupe.HandleClass(&jobs, "Ruby", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error { rubies.add(p); return nil }))
			stats := goworkers.NewStats(rdb, ns, "main", "mail", "add")
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: &jobs, HeartbeatInterval: 100 * time.Millisecond,
				Capsules: []actors.Capsule{
					{Name: "ruby", Concurrency: 2},
					{
						Name: "go", Concurrency: 2, Queues: actors.Strict{"mail", "add"}, Middleware: []troupe.Middleware{stats.Middleware},
						Wire: goworkers.New(goworkers.Options{Namespace: ns, Classes: map[string]string{"mail": "Mail"}}),
					},
				},
			})
			gw := goworkers.NewClient(rdb, ns)
			_, err := gw.Push(ctx,
				goworkers.Job{Queue: "mail", Class: "anything", Args: map[string]int{"k": 1}},
				goworkers.Job{Queue: "add", Class: "Add", Args: json.Number("12345678901234567890")},
				goworkers.Job{Queue: "add", Class: "Add", Args: []int{1, 2}, At: time.Now().Add(time.Second)},
				goworkers.Job{Queue: "add", Class: "Add", Args: []string{"fail"}, Retries: troupe.Times(1)},
			)
			harness.OK(t, err)
			rdb.RPush(ctx, prefix+"queue:add", "junk")
			rdb.ZAdd(ctx, prefix+"goretry", redisZ(1, "[1]"), redisZ(1, `{"class":"Add"}`))
			harness.Must(client.New(rdb).PushClass(ctx, "Ruby", []any{1}))(t)
			k.Await("all have run but the retry", func() bool {
				return len(mails.sorted()) == 1 && len(sums.sorted()) == 3 && len(rubies.sorted()) == 1 && rdb.ZCard(ctx, prefix+"dead").Val() == 3
			})
			k.Await("the retry is stored", func() bool { return rdb.ZCard(ctx, prefix+"goretry").Val() == 1 })
			retried := rdb.ZRange(ctx, prefix+"goretry", 0, 0).Val()[0]
			rdb.ZAdd(ctx, prefix+"goretry", redisZ(1, retried))
			k.Await("it was retried", func() bool { return len(sums.sorted()) == 4 })
			if want := []string{`["fail"]`, `["fail"]`, `[1,2]`, `[12345678901234567890]`}; !slices.Equal(sums.sorted(), want) {
				t.Errorf("ran %q", sums.sorted())
			}
			if mails.sorted()[0] != `[{"k":1}]` {
				t.Errorf("mail %q", mails.sorted())
			}
			harness.Must(gw.Push(ctx, goworkers.Job{Queue: "add", Class: "Add", Args: []string{"wait"}}))(t)
			k.Await("it runs", func() bool { return len(sums.sorted()) == 5 })
			k.Await("the statistics are written", func() bool {
				return rdb.Get(ctx, prefix+"stat:failed").Val() != "" && rdb.Get(ctx, prefix+"stat:processed").Val() != ""
			})
			rec := httptest.NewRecorder()
			stats.ServeStats1(rec, httptest.NewRequest("GET", "/stats", nil))
			var one struct {
				Jobs map[string][]struct {
					Message   struct{ Args []string }
					StartedAt int64 `json:"started_at"`
				}
				Enqueued map[string]string
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &one); err != nil || len(one.Jobs[prefix+"add"]) != 1 || one.Jobs[prefix+"add"][0].Message.Args[0] != "wait" ||
				one.Jobs[prefix+"mail"] == nil || one.Enqueued[prefix+"add"] != "0" {
				t.Errorf("%v %s", err, rec.Body)
			}
			close(fails)
			k.Stop()
			keys := rdb.Keys(ctx, prefix+"troupe:inprogress*").Val()
			if len(keys) > 0 {
				t.Errorf("left: %q", keys)
			}
		})
	}
}

// With the keys of its namespace and those of the list of processes, a daemon may do all
// it needs.
func TestRightsOfANamespace(t *testing.T) {
	server := testkit.NewServer(t)
	ctx := t.Context()
	user := []any{
		"ACL", "SETUSER", "app", "on", ">secret", "+@all", "-@dangerous", "+info", "+client|unblock", "+client|id", "~app:*", "~processes", "~process_cleanup", "~*:*:*", "~troupe:tree:*", "~troupe:pulse:*", "~troupe:pulses",
		"~troupe:measured:*", "~troupe:requests:*", "~troupe:replies:*", "~troupe:flight:*", "~troupe:flights", "~troupe:probe", "~j|*", "~h|*", "~*-[0-9][0-9]-[0-9][0-9]:*", "&troupe:*",
	}
	harness.OK(t, server.Client.Do(ctx, user...).Err())
	o := *server.Options()
	o.Username, o.Password = "app", "secret"
	rdb := redis.NewClient(&o)
	t.Cleanup(func() { _ = rdb.Close() })
	var jobs troupe.Registry
	var ran seen
	troupe.HandleClass(&jobs, "Add", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error { ran.add(p); return nil }))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &jobs, Capsules: []actors.Capsule{{
		Queues: actors.Strict{"q"}, Wire: goworkers.New(goworkers.Options{Namespace: "app"}),
	}}})
	harness.Must(goworkers.NewClient(rdb, "app").Push(ctx, goworkers.Job{Queue: "q", Class: "Add"}, goworkers.Job{Queue: "q", Class: "Add", At: time.Now().Add(time.Second)}))(t)
	k.Await("both ran", func() bool { return len(ran.sorted()) == 2 })
	k.Stop()
	if log := server.Client.ACLLog(ctx, 100).Val(); len(log) > 0 {
		for _, l := range log {
			t.Errorf("refused: %s", l.Object)
		}
	}
}
