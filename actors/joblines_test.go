package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// maxLine is what no line of the log may reach, however long the strings of jobs are:
// several of them, cut, and a stack.
const maxLine = 16 << 10

// checkLines looks at every line that was logged, and at the messages that are wanted
// among them, and returns how many lines of each message there were. No actor has crashed but
// processors, each of the job that it ran.
func checkLines(t *testing.T, log *harness.Buffer, want ...string) (count map[string]int) {
	t.Helper()
	count = map[string]int{}
	for text := range strings.Lines(log.String()) {
		if len(text) > maxLine {
			t.Errorf("a line of %d bytes: %.150q … %q", len(text), text, text[len(text)-150:])
		}
		var line struct{ Message, Actor, Error string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("%v: %.300q", err, text)
		}
		count[line.Message]++
		if line.Message == "an actor crashed" && (!strings.HasPrefix(line.Actor, "launcher/default/processor-") || !strings.HasPrefix(line.Error, "job ")) {
			t.Errorf("%s crashed: %s", line.Actor, line.Error)
		}
	}
	for _, message := range want {
		if count[message] == 0 {
			t.Errorf("no line %q among %v", message, count)
		}
	}
	return count
}

// A job whose jid and class are as large as a payload may be: each failure costs a
// short line, which tells how long they are.
func TestAHugeJIDAndClassMakeShortLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const huge = 1 << 20
		rdb, log := testkit.NewMemory(t).Client, new(harness.Buffer)
		r := handlers(map[string]func(context.Context) error{"Fails": func(context.Context) error { return script.Err }},
			troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { return troupe.Delay(time.Millisecond) }})
		k := testkit.Start(t, actors.Config{Redis: rdb, Registry: r, Capsules: onlyDefault, Logger: zerolog.New(log)})
		rdb.LPush(ctx, "queue:default", `{"class":"Fails","display_class":"`+strings.Repeat("K", huge)+
			`","jid":"`+strings.Repeat("é", huge/2)+`","args":[],"queue":"default","retry":1}`)
		k.Await("it has run twice", func() bool { return k.Stats().Failed == 2 && size(t, rdb, "dead") == 1 })
		k.Stop()
		harness.Equal(t, "lines of two failures", checkLines(t, log, "job failed")["job failed"], 2)
		length := fmt.Sprintf("… (%d bytes)", huge)
		for _, want := range []string{`"jid":"é`, "é" + length, `"class":"K`, "K" + length} {
			if log.Count(want) < 2 {
				t.Errorf("%d times %s in two lines", log.Count(want), want)
			}
		}
	})
}

// long is a job with long strings of its own wherever a job has a name.
func long(class, jid, more string) string {
	x := strings.Repeat("x", 100_000)
	return fmt.Sprintf(`{"class":%q,"jid":"%s%s","display_class":"%s","tags":["%s"],"queue":"default","retry":true,"args":[]%s}`,
		class, jid, x, class+x, x, more)
}

// longJobs performs what goes wrong in every way that a line is written about.
func longJobs(unresponsive <-chan struct{}) *troupe.Registry {
	boom := errors.New(strings.Repeat("boom ", 20_000))
	r := handlers(map[string]func(context.Context) error{
		"Done": func(ctx context.Context) error { zerolog.Ctx(ctx).Info().Msg("the handler's own"); return nil },
		"Fail": func(context.Context) error { return boom }, "Kill": func(context.Context) error { return troupe.Kill(boom) },
		"Discard": func(context.Context) error { return troupe.Discard(boom) }, "Park": func(context.Context) error { return troupe.Park(time.Hour, boom) },
		"Panic": func(context.Context) error { panic(boom) },
		"Hang":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	})
	troupe.HandleClass(r, "Unresponsive", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { <-unresponsive; return nil }),
		troupe.Options{Timeout: time.Second})
	troupe.HandleClass(r, "Callback", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return boom }),
		troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { panic(boom) }})
	for class, to := range map[string]troupe.Recovery{"Dead": {Dead: true}, "Elsewhere": {Queue: "big"}} {
		troupe.HandleClass(r, class, troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }), troupe.Options{Recovery: to})
	}
	w := &walker{each: sleeping(time.Second)}
	w.ran, w.runs = map[string][]int{}, map[string]int{}
	troupe.HandleIterable(r, w.items, w.item, w.opts)
	return r
}

// refusing is client middleware that fails jobs of class Middleware.
func refusing(next client.PushFunc) client.PushFunc {
	return func(ctx context.Context, p *troupe.Payload) error {
		if p.Class() == "Middleware" {
			return errors.New(strings.Repeat("no ", 40_000))
		}
		return next(ctx, p)
	}
}

// Every line of a daemon is short, whatever its jobs are called and whatever becomes
// of them.
func TestEveryLineIsShortWhateverAJobIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb, log, unresponsive := testkit.NewMemory(t).Client, new(harness.Buffer), make(chan struct{})
		for i, class := range []string{"Dead", "Elsewhere", "Suspect"} {
			orphan(t, rdb, long(class, class, ""), false)
			if class == "Suspect" {
				p, err := troupe.ParsePayload([]byte(long(class, class, "")))
				if err != nil {
					t.Fatal(err)
				}
				recoveredBefore(t, rdb, p.JID(), i)
			}
		}
		k := testkit.Start(t, actors.Config{
			Redis: rdb, Registry: longJobs(unresponsive), Logger: zerolog.New(log), Lease: 5 * time.Second,
			Capsules:         []actors.Capsule{{Concurrency: 4, Queues: fetch.Strict{"default"}, MaxUnresponsive: 1}},
			ClientMiddleware: []client.Middleware{refusing},
			ErrorHandlers:    []actors.ErrorHandler{func(context.Context, error, actors.ErrorContext) { panic(strings.Repeat("handler ", 20_000)) }},
			DeathHandlers:    []actors.DeathHandler{func(context.Context, *troupe.Payload, error) { panic(strings.Repeat("handler ", 20_000)) }},
		})
		for _, class := range []string{"Done", "Fail", "Kill", "Discard", "Park", "Panic", "Callback", "Unresponsive", strings.Repeat("Unknown", 10_000)} {
			rdb.LPush(ctx, "queue:default", long(class, class[:4], ""))
		}
		rdb.LPush(ctx, "queue:default", "no job "+strings.Repeat("y", 100_000))
		for i, member := range []string{
			strings.Replace(long("Due", "due", ""), `"queue":"default"`, `"queue":"`+strings.Repeat("q", 100_000)+`"`, 1),
			strings.Replace(long("Args", "args", ""), `"args":[]`, `"args":{"a":"`+strings.Repeat("a", 100_000)+`"}`, 1),
			long("Middleware", "middleware", ""), "no job " + strings.Repeat("z", 100_000),
		} {
			rdb.ZAdd(ctx, "schedule", redis.Z{Score: float64(i + 1), Member: member})
		}
		rdb.Set(ctx, "queue:"+strings.Repeat("q", 100_000), "another type", 0)
		time.Sleep(time.Minute) // as long as all of it may take
		close(unresponsive)
		k.Await("the unresponsive have ended", func() bool { return k.Stats().Busy == 0 })
		rdb.LPush(ctx, "queue:default", long("Hang", "hang", ""), strings.Replace(long("Walk", "walk", ""), `"args":[]`, `"args":[1000]`, 1))
		k.Await("the last two run", func() bool { return k.Stats().Busy == 2 })
		tree := k.Tree().String()
		report := k.Stop().String()
		checkLines(t, log,
			"the handler's own", "job started", "job done", "job failed", "job parked", "job interrupted", "an actor crashed",
			"a retry callback failed", "an error handler failed", "a death handler failed", "not a job: moved to the dead set",
			"a job is unresponsive: it goes on although its context was cancelled", "job ended after its outcome was decided elsewhere; the result is refused",
			"a recovered job was moved to the dead set", "a recovered job was sent elsewhere",
			"a job is suspected of killing its process: it runs apart from other suspects", "running a suspect",
			"not a valid job: moved to the dead set", "job left where it is: client middleware failed",
			"jobs left where they are: their destination is a key of another type",
			"requeued the jobs that were still running", "stopped",
		)
		if len(report) > maxLine || len(tree) > maxLine {
			t.Errorf("a report of %d bytes, a tree of %d", len(report), len(tree))
		}
	})
}
