package explain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/console/explain"
	"github.com/troupehq/troupe/internal/control"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

const jid = "0123456789abcdef01234567"

// world is a daemon whose jobs do as their classes say.
type world struct {
	t       *testing.T
	rdb     *redis.Client
	k       *testkit.Kit
	release chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, rdb: testkit.Redis(t), release: make(chan struct{})}
	var r troupe.Registry
	handle := func(class string, f func(ctx context.Context) error) {
		troupe.HandleClass(&r, class, troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error { return f(ctx) }))
	}
	handle("Waits", func(ctx context.Context) error {
		select {
		case <-w.release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	handle("Ignores", func(context.Context) error { <-w.release; return nil })
	handle("Fails", func(context.Context) error { return errors.New("502 Bad Gateway") })
	w.k = testkit.Start(t, actors.Config{Redis: w.rdb, Registry: &r, Concurrency: 1, Grace: 50 * time.Millisecond})
	t.Cleanup(func() { close(w.release) })
	return w
}

func (w *world) do(args ...any) {
	w.t.Helper()
	if err := w.rdb.Do(w.t.Context(), args...).Err(); err != nil {
		w.t.Fatal(args, err)
	}
}

// chainOf is a field t_next of n jobs.
func chainOf(n int) string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf(`"{\"class\":\"Step%d\",\"args\":[],\"queue\":\"low\",\"jid\":\"s%d\"}"`, i+1, i+1)
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// push puts the job into a queue; add are further fields.
func (w *world) push(queue, class, id, add string) {
	w.t.Helper()
	w.do("SADD", "queues", queue)
	w.do("LPUSH", "queue:"+queue, fmt.Sprintf(`{"class":%q,"args":[],"retry":true,"queue":%q,"jid":%q,"created_at":%d,"enqueued_at":%d%s}`,
		class, queue, id, time.Now().Unix()-60, time.Now().Unix()-30, add))
}

func (w *world) runs(id string) {
	w.t.Helper()
	w.k.Await(id+" runs", func() bool {
		for _, n := range w.k.Daemon.Tree() {
			if n.Job != nil && n.Job.JID == id && !n.Job.Started.IsZero() {
				return true
			}
		}
		return false
	})
}

// The lives of a job, each with the reasons that it is to be explained with.
func TestLives(t *testing.T) {
	for _, life := range []struct {
		name string
		live func(w *world)
		want string // place: codes
		says string // in the first sentences and the next step
	}{
		{"paused queue", func(w *world) {
			w.do("SADD", "paused", "default")
			time.Sleep(5 * time.Second) // a wait that is open brings a job for up to 2 s
			w.push("default", "Waits", jid, "")
		}, "queue:default: paused position", "The queue default is paused. It is number 1 of 1. Nothing, until it is unpaused: troupe queues unpause default."},
		{"tick of a periodic job", func(w *world) {
			w.push("other", "Waits", jid, `,"troupe_periodic":"nightly","troupe_tick":"2026-11-26T03:00:00Z"`)
		}, "queue:other: nobody_listens position periodic", "It was pushed by the periodic job nightly, for its tick of 2026-11-26 03:00:00 UTC."},
		{"child", func(w *world) { w.push("other", "Waits", jid, `,"t_parent":"p1"`) },
			"queue:other: nobody_listens position parent", "It was pushed by the job p1 as that was done."},
		{"chain", func(w *world) { w.push("other", "Waits", jid, `,"t_next":`+chainOf(2)) },
			"queue:other: nobody_listens position chain", "2 more jobs are behind it: next class Step1, queue low; they follow when it is done."},
		{"last but one of a chain", func(w *world) { w.push("other", "Waits", jid, `,"t_next":`+chainOf(1)) },
			"queue:other: nobody_listens position chain", "1 more job is behind it: class Step1, queue low; it follows when this one is done."},
		{"dead in a chain", func(w *world) {
			w.do("ZADD", "dead", time.Now().Unix(), `{"class":"Waits","args":[],"queue":"other","jid":"`+jid+`","t_next":`+chainOf(3)+`}`)
		}, "dead: killed chain", "3 more jobs are behind it: next class Step1, queue low; a retry carries on with them."},
		{"broken chain", func(w *world) { w.push("other", "Waits", jid, `,"t_next":["secret"]`) },
			"queue:other: nobody_listens position broken_chain", "Its field t_next is no list of jobs, so the chain cannot be carried on: it goes to the dead set instead of a run."},
		{"holder of a lock", func(w *world) {
			w.do("SET", "troupe:lock:d1", jid, "PX", 3600000)
			w.push("other", "Waits", jid, `,"t_lock":{"digest":"d1","for":3600}`)
		}, "queue:other: nobody_listens position holds_lock", "It is unique, and holds the lock troupe:lock:d1, until "},
		{"without its lock", func(w *world) { w.push("other", "Waits", jid, `,"t_lock":{"digest":"d1","for":3600}`) },
			"queue:other: nobody_listens position lock_free", "It is unique, and nobody holds its lock troupe:lock:d1: a job that is the same can be pushed."},
		{"dead while another holds its lock", func(w *world) {
			w.do("SET", "troupe:lock:d1", "another", "PX", 3600000)
			w.do("ZADD", "dead", time.Now().Unix(), `{"class":"Waits","args":[],"queue":"other","jid":"`+jid+`","t_lock":{"digest":"d1","for":3600}}`)
		}, "dead: killed lock_held", "It is unique, and the job another holds its lock troupe:lock:d1, until "},
		{"nobody listens", func(w *world) { w.push("other", "Waits", jid, "") },
			"queue:other: nobody_listens position", "No process listens on the queue other."},
		{"all busy", func(w *world) {
			w.push("default", "Waits", "first", "")
			w.runs("first")
			w.push("default", "Waits", "second", "")
			w.push("default", "Waits", jid, "")
		}, "queue:default: all_busy position", "All processes that listen on the queue default are busy: 1. The longest job runs for"},
		{"owner dead", func(w *world) {
			w.do("SADD", "paused", "elsewhere")
			w.do("SET", "troupe:rescue", "held by the test", "PX", 60000) // no rescuer takes it meanwhile
			w.do("HSET", "troupe:places", "h:1:aa#default.1", `{"v":2,"queues":["elsewhere"]}`)
			w.do("HSET", "troupe:inprogress:h:1:aa#default.1", "1.1", "elsewhere 1795000000000")
			w.do("RPUSH", "troupe:claim:h:1:aa#default.1:1.1", `{"class":"Waits","args":[],"jid":"`+jid+`"}`)
		}, "in progress: owner_dead", "h:1:aa has died with it: its lease is over. A rescuer puts it back into the queue elsewhere within a minute."},
		{"suspect", func(w *world) { w.push("other.suspects", "Waits", jid, "") },
			"queue:other.suspects: suspect nobody_listens", "It is a suspect: its process has died under it. It waits to run alone."},
		{"isolated run", func(w *world) {
			w.push("default.suspects", "Waits", jid, "")
			w.runs(jid)
		}, "running: running isolated", "If the process dies again, the job goes to the dead set."},
		{"retry with its error", func(w *world) {
			w.push("default", "Fails", jid, "")
			w.k.Await("the retry", func() bool { return w.rdb.ZCard(w.t.Context(), "retry").Val() == 1 })
		}, "retry: retry", "It has failed 1 time, at last with error: 502 Bad Gateway. At 20"},
		{"scheduled", func(w *world) {
			w.do("ZADD", "schedule", 1995000000, `{"class":"Waits","args":[],"queue":"low","jid":"`+jid+`"}`)
		}, "scheduled: scheduled", "It was pushed for 2033-03-21T06:40:00Z. At 2033-03-21T06:40:00Z it goes into the queue low for its run."},
		{"dead by poison", func(w *world) {
			why := troupe.RecoveredError{Times: 3, Within: 72 * time.Hour, Process: "h:1:aa", Poison: true}
			w.do("ZADD", "dead", time.Now().Unix(), fmt.Sprintf(`{"class":"Waits","args":[],"jid":%q,"error_class":%q,"error_message":%q}`, jid, why.ErrorClass(), why.Error()))
		}, "dead: poison", "as a poison pill: Troupe::PoisonPill: in progress at the death of 3 processes within 72h0m0s"},
		{"cancelled", func(w *world) {
			w.push("default", "Waits", jid, "")
			w.runs(jid)
			w.k.Daemon.Cancel(jid)
			w.k.Await("the retry", func() bool { return w.rdb.ZCard(w.t.Context(), "retry").Val() == 1 })
		}, "retry: retry cancelled", "at last with error: troupe: cancelled by an operator. An operator has cancelled it at"},
		{"unresponsive", func(w *world) {
			w.push("default", "Ignores", jid, "")
			w.runs(jid)
			w.k.Daemon.Cancel(jid)
			w.k.Await("it is listed", func() bool { return len(w.k.Daemon.Tree().Find("launcher/default").Unresponsive) == 1 })
		}, "running: running cancelled unresponsive", "(troupe: cancelled by an operator), and it does not end. It keeps its slot. Its goroutine: "},
		{"handed over", func(w *world) {
			w.k = testkit.Start(w.t, actors.Config{Redis: w.rdb, Registry: new(troupe.Registry), Capsules: []actors.Capsule{{
				Queues: actors.Strict{"mixed"}, Unknown: actors.Unknown{Queue: "ruby"},
			}}})
			w.push("mixed", "Ruby::Only", jid, "")
			w.k.Await("it is handed over", func() bool { return w.rdb.LLen(w.t.Context(), "queue:ruby").Val() == 1 && w.k.Settled() })
		}, "queue:ruby: class_handed_over nobody_listens position", "Of the class Ruby::Only, jobs without a handler here go to the queue ruby at "},
		{"expires", func(w *world) { w.push("other", "Waits", jid, `,"t_deadline":1995000000`) },
			"queue:other: expires nobody_listens position", "It expires at 2033-03-21T06:40:00Z: if no run has started by then it goes to the dead set, unless its class has such jobs dropped."},
		{"expired", func(w *world) { w.push("other", "Waits", jid, `,"expires_in":1`) },
			"queue:other: expired nobody_listens position", ": when its turn comes it is not run and is dropped."},
		{"scheduled and expires", func(w *world) {
			w.do("ZADD", "schedule", 1995000000, `{"class":"Waits","args":[],"queue":"low","jid":"`+jid+`","created_at":1795000000,"expires_in":1}`)
		}, "scheduled: scheduled", "It was pushed for 2033-03-21T06:40:00Z. At"},
		{"dropped", func(w *world) {
			w.push("default", "Waits", jid, `,"expires_in":1`)
			w.k.Await("it is dropped", func() bool { return w.k.Stats().Processed == 1 && w.k.Settled() })
		}, ": gone", "It neither runs nor waits. The last that is known: job expired: at 20"},
		{"never pushed", func(*world) {}, ": unknown", "it is done, was discarded, or was never pushed."},
	} {
		t.Run(life.name, func(t *testing.T) {
			w := newWorld(t)
			life.live(w)
			harness.OK(t, control.Send(t.Context(), w.rdb, []string{w.k.Daemon.Identity()}, control.Request{Do: control.Look}, func(control.Reply) bool { return true }))
			x := harness.Must(explain.Job(t.Context(), w.rdb, jid, nil))(t)
			got, said := x.Place+":", ""
			for _, r := range x.Why {
				got += " " + r.Code
				said += r.Text + " "
			}
			if got != life.want || !strings.Contains(said+x.Next, life.says) {
				t.Errorf("%s\n%s\nexpected %s\n%s", got, said+x.Next, life.want, life.says)
			}
			if life.name == "cancelled" {
				var events []string
				for _, step := range x.Timeline {
					event, _, _ := strings.Cut(step.Event, ":")
					events = append(events, event)
				}
				if got := strings.Join(events, ", "); !strings.HasPrefix(got, "pushed, put into its queue, ") || !strings.Contains(got, "job cancelled, ") || !strings.Contains(got, "job failed") {
					t.Errorf("timeline %s", got)
				}
			}
		})
	}
}
