package actors_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// mourner is a death handler that returns when it is let.
type mourner struct {
	release chan struct{}
	let     func() // closes it, once

	mu      sync.Mutex
	running int
	most    int
	told    map[string]int // by jid
}

func newMourner() *mourner {
	release := make(chan struct{})
	return &mourner{release: release, let: sync.OnceFunc(func() { close(release) }), told: map[string]int{}}
}

func (m *mourner) handler(_ context.Context, p *troupe.Payload, _ error) {
	m.mu.Lock()
	m.running++
	m.most = max(m.most, m.running)
	m.told[p.JID()]++
	m.mu.Unlock()
	<-m.release
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
}

func (m *mourner) counts() (jobs, running, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.told), m.running, m.most
}

// deadly makes jobs of class A dead as soon as their process dies.
func deadly() *troupe.Registry {
	var r troupe.Registry
	troupe.HandleClass(&r, "A", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }),
		troupe.Options{Recovery: troupe.Recovery{Dead: true}})
	return &r
}

func orphans(t *testing.T, rdb redis.UniversalClient, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		orphan(t, rdb, job("A", fmt.Sprintf("j%d", i), "[]"), false)
	}
}

// Hundreds of jobs are dead after one rescue: the handlers of their deaths run a few
// at a time, keep no rescue waiting, and are called for each.
func TestDeathHandlersAfterARescueRunAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb, m, log := testkit.NewMemory(t).Client, newMourner(), new(harness.Buffer)
		defer m.let() // also when the test fails
		orphans(t, rdb, 0, 300)
		k := testkit.Start(t, actors.Config{
			Redis: rdb, Registry: deadly(), Capsules: onlyDefault, Logger: zerolog.New(log),
			DeathHandlers: []actors.DeathHandler{m.handler},
		})
		k.Await("all are dead", func() bool { return size(t, rdb, "dead") == 300 })
		synctest.Wait()
		if _, running, _ := m.counts(); running == 0 || running > 10 {
			t.Errorf("%d death handlers run at once", running)
		}
		orphans(t, rdb, 300, 301)
		k.Await("another rescue", func() bool { return size(t, rdb, "dead") == 301 })
		synctest.Wait()
		if log.Count("death handlers are slow") == 0 {
			t.Error("no line about jobs that wait for their death handlers")
		}
		m.let()
		k.Await("all are told of", func() bool { jobs, running, _ := m.counts(); return jobs == 301 && running == 0 })
		if _, _, most := m.counts(); most > 10 {
			t.Errorf("%d death handlers ran at once", most)
		}
		for jid, n := range m.told {
			if n != 1 {
				t.Errorf("%s was told of %d times", jid, n)
			}
		}
	})
}

// A stop waits for death handlers as for jobs, until its deadline; what they were
// not told of by then is in the log.
func TestDeathHandlersAtAStop(t *testing.T) {
	for name, ends := range map[string]bool{"they end": true, "they hang": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb, m, log := testkit.NewMemory(t).Client, newMourner(), new(harness.Buffer)
				defer m.let()
				orphans(t, rdb, 0, 30)
				k := testkit.Start(t, actors.Config{
					Redis: rdb, Registry: deadly(), Capsules: onlyDefault, Logger: zerolog.New(log), Timeout: 10 * time.Second,
					DeathHandlers: []actors.DeathHandler{m.handler},
				})
				k.Await("all are dead", func() bool { return size(t, rdb, "dead") == 30 })
				if ends {
					time.AfterFunc(5*time.Second, m.let)
				}
				began := time.Now()
				k.Stop()
				took := time.Since(began)
				jobs, _, _ := m.counts()
				if ends && (jobs != 30 || took > 6*time.Second) {
					t.Errorf("told of %d jobs at the end of a stop of %s", jobs, took)
				}
				if !ends && took > 20*time.Second {
					t.Errorf("the stop took %s", took)
				}
				if n := log.Count("death handlers were not told in time"); n != 0 == ends {
					t.Errorf("%d lines about jobs that were not told of, after %d that were", n, jobs)
				}
				if !ends {
					if want := fmt.Sprintf(`"jobs":%d,`, 30-jobs); log.Count(want) == 0 {
						t.Errorf("no line with %s:\n%s", want, log.String())
					}
					m.let()
				}
			})
		})
	}
}

// A policy that hangs costs one goroutine and a second, not both for each job; what
// it is not asked about goes back to its queue, and it is asked again when it has
// returned.
func TestARecoveryPolicyThatHangsIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb, log := testkit.NewMemory(t).Client, new(harness.Buffer)
		release := make(chan struct{})
		let := sync.OnceFunc(func() { close(release) })
		defer let()
		var mu sync.Mutex
		asked, running, most := 0, 0, 0
		orphans(t, rdb, 0, 100)
		rdb.SAdd(ctx, "paused", "default")
		k := testkit.Start(t, actors.Config{
			Redis: rdb, Registry: new(troupe.Registry), Capsules: onlyDefault, Logger: zerolog.New(log),
			Recovery: func(*troupe.Payload, int) troupe.Recovery {
				mu.Lock()
				asked++
				running++
				most = max(most, running)
				mu.Unlock()
				<-release
				mu.Lock()
				defer mu.Unlock()
				running--
				return troupe.Recovery{Queue: "big"}
			},
		})
		began := time.Now()
		k.Await("all are back in their queue", func() bool { return size(t, rdb, "queue:default") == 100 })
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the rescue took %s", took)
		}
		synctest.Wait()
		mu.Lock()
		if asked != 1 || most != 1 {
			t.Errorf("asked %d times, %d at once, want once", asked, most)
		}
		mu.Unlock()
		named := 0
		for text := range strings.Lines(log.String()) {
			if strings.Contains(text, `"jid":"j`) && strings.Contains(text, "goes back to its queue") {
				named++
			}
		}
		harness.Equal(t, "the log names jobs that went back", named, 100)
		let()
		synctest.Wait()
		orphans(t, rdb, 100, 101)
		k.Await("the policy decides again", func() bool { return size(t, rdb, "queue:big") == 1 })
	})
}
