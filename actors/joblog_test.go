package actors_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// linesOf are the lines about a job, by message.
func linesOf(t *testing.T, log *harness.Buffer, jid string) map[string]harness.Line {
	t.Helper()
	found := map[string]harness.Line{}
	for _, line := range log.Lines(t) {
		if message, ok := line["message"].(string); ok && line["jid"] == jid {
			found[message] = line
		}
	}
	return found
}

// talkative logs as a handler does that knows nothing of troupe's loggers.
func talkative(ctx context.Context, _ *troupe.Payload) error {
	for level := zerolog.DebugLevel; level <= zerolog.ErrorLevel; level++ {
		zerolog.Ctx(ctx).WithLevel(level).Msg("handler says " + level.String())
	}
	return nil
}

func TestTheLogLevelOfAJobHoldsForItsOwnLines(t *testing.T) {
	var r troupe.Registry
	troupe.HandleClass(&r, "Talk", troupe.HandlerFunc(talkative))
	log := &harness.Buffer{}
	k := testkit.Start(t, actors.Config{
		Registry: &r, Logger: zerolog.New(log).Level(zerolog.InfoLevel), DoneLevel: zerolog.InfoLevel, Capsules: []actors.Capsule{{Concurrency: 1}}, // in their order
	})
	all := []string{"job started", "handler says debug", "handler says info", "handler says warn", "handler says error", "job done"}
	for level, want := range map[any][]string{
		"debug": all, nil: all[2:], "info": all[2:], "nonsense": all[2:], "warn": all[3:5], "error": all[4:5], "fatal": nil,
	} {
		jid := k.PushClass("Talk", nil, client.Set("log_level", level))
		last := k.PushClass("Talk", nil)
		k.Await("both jobs are done", func() bool { return linesOf(t, log, last)["job done"] != nil })
		got := linesOf(t, log, jid)
		for _, message := range all {
			wanted := strings.Contains(strings.Join(want, "\n"), message)
			if line := got[message]; (line != nil) != wanted {
				t.Errorf("log_level %v: %q is %v, want it: %v", level, message, line, wanted)
			}
		}
	}
}

// A daemon within a program tells at debug, unless the program asks for more, that a job is done.
func TestAJobThatIsDoneIsToldAtTheLevelAskedFor(t *testing.T) {
	for level, want := range map[zerolog.Level]string{zerolog.DebugLevel: "", zerolog.InfoLevel: "info", zerolog.WarnLevel: "warn"} {
		var r troupe.Registry
		troupe.HandleClass(&r, "Talk", troupe.HandlerFunc(talkative))
		log := &harness.Buffer{}
		k := testkit.Start(t, actors.Config{Registry: &r, Logger: zerolog.New(log).Level(zerolog.InfoLevel), DoneLevel: level})
		jid := k.PushClass("Talk", nil)
		k.Await("the job is done", func() bool { return k.Stats().Processed == 1 })
		k.Stop()
		if line := linesOf(t, log, jid)["job done"]; (line != nil) != (want != "") || line != nil && line["level"] != want {
			t.Errorf("with DoneLevel %s: %v", level, line)
		}
	}
}

func TestALoggerThatIsOffStaysOff(t *testing.T) {
	var r troupe.Registry
	troupe.HandleClass(&r, "Talk", troupe.HandlerFunc(talkative))
	log, rdb := &harness.Buffer{}, testkit.NewMemory(t).Client
	d := harness.Must(actors.New(actors.Config{Redis: rdb, Registry: &r, Logger: zerolog.New(log).Level(zerolog.Disabled)}))(t)
	harness.OK(t, d.Start(ctx))
	harness.Must(client.New(rdb).PushClass(ctx, "Talk", nil, client.Set("log_level", "debug")))(t)
	harness.Await(t, "it has run", func() bool { return d.Stats().Processed > 0 })
	if _, err := d.Stop(ctx); err != nil || d.Stats().Processed != 1 {
		t.Errorf("%+v, %v", d.Stats(), err)
	}
	harness.Equal(t, "logged", log.String(), "")
}

func TestTheLoggerOfTheContextNamesTheJob(t *testing.T) {
	var r troupe.Registry
	troupe.HandleClass(&r, "Mail", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		inner, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		var wg sync.WaitGroup
		for range 4 { // from any goroutine, and it is the same one
			wg.Go(func() { zerolog.Ctx(inner).UpdateContext(func(c zerolog.Context) zerolog.Context { return c }) })
			wg.Wait()
		}
		zerolog.Ctx(ctx).UpdateContext(func(c zerolog.Context) zerolog.Context { return c.Int("account", 42) })
		zerolog.Ctx(inner).Info().Msg("from the handler")
		return nil
	}), troupe.Options{Timeout: time.Minute})
	log := &harness.Buffer{}
	k := testkit.Start(t, actors.Config{Registry: &r, Logger: zerolog.New(log).With().Str("service", "shop").Logger()})
	jid := k.PushClass("Sidekiq::ActiveJob::Wrapper", nil, client.Set("wrapped", "Mail"), client.Set("display_class", "Welcome#mail"),
		client.Set("retry_count", 2), client.Set("failed_at", 1.5))
	k.Await("the job is done", func() bool { return linesOf(t, log, jid)["job done"] != nil })
	line := linesOf(t, log, jid)["from the handler"]
	for field, want := range map[string]any{
		"service": "shop", "jid": jid, "class": "Welcome#mail", "queue": "default", "capsule": "default", "attempt": 4.0, "account": 42.0,
	} {
		if line[field] != want {
			t.Errorf("%s is %v, want %v", field, line[field], want)
		}
	}
}

// Whatever a job fails with, the log stays readable; the stored job has it all.
func TestLongErrorsOfJobsAreCutInTheLog(t *testing.T) {
	long := strings.Repeat("é", 4000)
	var r troupe.Registry
	troupe.HandleClass(&r, "Fails", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return errors.New(long) }),
		troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay { panic(long) }})
	troupe.HandleClass(&r, "Panics", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { panic(long) }))
	troupe.HandleClass(&r, "Parks", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		return troupe.Park(time.Hour, errors.New(long))
	}))
	log := &harness.Buffer{}
	k := testkit.Start(t, actors.Config{
		Registry: &r, Logger: zerolog.New(log), Capsules: []actors.Capsule{{Concurrency: 1}},
		ErrorHandlers: []actors.ErrorHandler{func(context.Context, error, actors.ErrorContext) { panic(long) }},
		DeathHandlers: []actors.DeathHandler{func(context.Context, *troupe.Payload, error) { panic(long) }},
	})
	for class, retry := range map[string]any{"Fails": true, "Panics": 0, "Parks": true} {
		k.PushClass(class, nil, client.Set("retry", retry))
	}
	for _, message := range []string{
		"job failed", "a retry callback failed", "an error handler failed", "a death handler failed", "an actor crashed", "job parked",
	} {
		k.Await(message, func() bool { return log.Count(`"message":"`+message+`"`) > 0 })
	}
	// a callback that failed is told of before its job is stored
	k.Await("the failure is stored", func() bool { return size(t, k.Redis, "retry") > 0 })
	retried := k.Redis.ZRange(ctx, "retry", 0, -1).Val()
	if len(retried) != 1 || !strings.Contains(retried[0], long) {
		t.Errorf("the stored error is not whole: %d entries", len(retried))
	}
	k.Stop()
	for text := range strings.Lines(log.String()) {
		if strings.Contains(text, strings.Repeat("é", 513)) {
			t.Errorf("a line of %d bytes: %.200s…", len(text), text)
		}
		if strings.Contains(text, "éé") && !strings.Contains(text, `"error_bytes":8`) {
			t.Errorf("no full length in %.200s…", text)
		}
	}
	if n := k.Tree().Find("launcher/default/processor-0"); len(n.LastFailure) > 1024 || !strings.Contains(n.LastFailure, "éé") {
		t.Errorf("the tree tells a failure of %d bytes", len(n.LastFailure))
	}
}
