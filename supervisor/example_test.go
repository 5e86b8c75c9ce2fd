package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
)

func strategies(rdb *redis.Client, jobs *troupe.Registry) actors.Config {
	return actors.Config{
		Redis: rdb, Registry: jobs,
		Strategy: supervisor.OneForOne(supervisor.Spec{ // of the launcher's children
			Intensity: 10, Backoff: supervisor.Backoff{Min: time.Second, Max: 5 * time.Second},
		}),
		Capsules: []actors.Capsule{
			{Concurrency: 10},
			{
				Name: "ledger", Concurrency: 1, Queues: fetch.Strict{"ledger"},
				Strategy: supervisor.RestForOne(supervisor.Spec{Replace: true}),
			},
		},
	}
}

func decide(log zerolog.Logger) func(supervisor.Failure) supervisor.Directive {
	return func(f supervisor.Failure) supervisor.Directive {
		switch {
		case errors.Is(f.Reason, syscall.ENOSPC): // a restart will not make room: end, with exit code 70
			return supervisor.Escalate
		case f.JobCrashes >= 5: // this class, on any processor of the capsule: a bad job
			log.Error().Str("class", f.Job.Class).Msg("crashes again and again")
		case f.Job != nil && f.ActorCrashes >= 5: // any class, on this processor
			log.Error().Str("actor", f.Path).Msg("kills what it is given")
		}
		return supervisor.DefaultDecider(f)
	}
}

// probation escalates every failure of an actor before until, so that a deployment whose
// actors crash ends at once with exit code 70, and can be rolled back. Afterwards the
// default decides.
func probation(until time.Time) *supervisor.Strategy {
	return supervisor.OneForOne(supervisor.Spec{Decide: func(f supervisor.Failure) supervisor.Directive {
		if f.Job == nil && time.Now().Before(until) { // a user's bad job is no bad deployment
			return supervisor.Escalate
		}
		return supervisor.DefaultDecider(f)
	}})
}

// logged tells of every failure before a strategy of the actor library decides.
type logged struct {
	actor.SupervisorStrategy
	log zerolog.Logger
}

func (l logged) HandleFailure(sys *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	rs *actor.RestartStatistics, reason, message any) {
	l.log.Error().Str("actor", child.GetId()).Err(supervisor.NewCrash(reason, nil)).Msg("has failed")
	l.SupervisorStrategy.HandleFailure(sys, sup, child, rs, reason, message)
}

func theirs(log zerolog.Logger) *supervisor.Strategy {
	return supervisor.FromProtoactor(logged{SupervisorStrategy: actor.NewOneForOneStrategy(10, time.Minute, actor.DefaultDecider), log: log})
}

func watch(log zerolog.Logger) func(event.Event) {
	return func(e event.Event) {
		switch e := e.(type) {
		case event.ActorEscalated:
			log.Error().Str("actor", e.Path).Err(e.Err).Msg("a supervisor gave up")
		case event.StrategyBlocked:
			log.Error().Str("actor", e.Path).Str("strategy", e.Strategy).Msg("waits for its strategy")
		}
	}
}

func TestProbationEndsABadDeployment(t *testing.T) {
	const fetcher = "launcher/default/fetcher"
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			until := time.Now().Add(time.Minute)
			k := testkit.Start(t, actors.Config{
				Logger: zerolog.New(io.Discard), Strategy: probation(until), Capsules: []actors.Capsule{{Concurrency: 1, Strategy: probation(until)}},
			})
			if late {
				time.Sleep(time.Minute)
			}
			crashes := 0
			for ; k.Err() == nil && crashes < 10; crashes++ {
				k.Crash(fetcher, errors.New("a bad deployment"))
				time.Sleep(time.Second)
			}
			if !late && crashes != 1 {
				t.Errorf("ended after %d crashes, want the first", crashes)
			}
			if ended := k.Err() != nil; ended == late {
				t.Errorf("late %v, ended %v: %v\n%s", late, ended, k.Err(), k.Tree())
			}
			if n := k.Tree().Find("launcher/default").Restarts; late && n != 0 {
				t.Errorf("the manager restarted %d times", n)
			}
		})
	}
}

func TestTheDeciderOfThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var jobs troupe.Registry
		troupe.HandleClass(&jobs, "Bad", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { panic("bad") }))
		spec := supervisor.Spec{Intensity: 5, Period: time.Minute, Decide: decide(zerolog.New(&log))}
		k := testkit.Start(t, actors.Config{
			Logger: zerolog.New(io.Discard), Registry: &jobs,
			Capsules: []actors.Capsule{{Concurrency: 2, Strategy: supervisor.OneForOne(spec)}},
		})
		for range 6 {
			k.PushClass("Bad", nil)
		}
		k.Await("six crashes", func() bool { return k.Stats().Failed == 6 })
		synctest.Wait()
		if got := log.String(); got != `{"level":"error","class":"Bad","message":"crashes again and again"}`+"\n" {
			t.Errorf("logged %s", got)
		}
		k.Crash("launcher/default/fetcher", fmt.Errorf("write: %w", syscall.ENOSPC))
		<-k.Done()
		if !errors.Is(k.Err(), syscall.ENOSPC) {
			t.Errorf("ended with %v", k.Err())
		}
	})
}

func TestAStrategyOfTheActorLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k := testkit.Start(t, actors.Config{
			Logger: zerolog.New(io.Discard), Strategy: theirs(zerolog.Nop()),
			Capsules: []actors.Capsule{{Concurrency: 1, Strategy: theirs(zerolog.New(&log))}},
		})
		k.Crash("launcher/default/fetcher", errors.New("boom"))
		k.Await("the restart", func() bool { return k.Tree().Find("launcher/default/fetcher").Restarts == 1 })
		if got := log.String(); got != `{"level":"error","actor":"launcher/default/fetcher","error":"boom","message":"has failed"}`+"\n" {
			t.Errorf("logged %s", got)
		}
	})
}

func TestTheConfigurationOfThePage(t *testing.T) {
	cfg := strategies(testkit.NewMemory(t).Client, new(troupe.Registry))
	cfg.Subscribers = []func(event.Event){watch(zerolog.Nop())}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

// Every Go block of the page is a piece of this file.
func TestPageIsCompiled(t *testing.T) {
	page, err := os.ReadFile("../docs/supervision.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 4 {
		t.Fatalf("%d Go blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(string(source), b[1]) {
			t.Errorf("not in example_test.go:\n%s", b[1])
		}
	}
}
