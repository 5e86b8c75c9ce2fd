package actors_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/supervisor"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// hookFunc is a hook of a logger.
type hookFunc func(text string)

func (f hookFunc) Run(_ *zerolog.Event, _ zerolog.Level, text string) { f(text) }

// A poll, or a stand for the watch, that does not come to its end is one: the next
// comes after its interval, though nobody restarts the poller.
func TestPollingGoesOnAfterAPollThatFails(t *testing.T) {
	for _, key := range []string{"process_cleanup", "troupe:poller"} {
		for name, fail := range map[string]func(){
			"panic":  func() { panic("a log hook") },
			"goexit": runtime.Goexit,
		} {
			t.Run(key+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { failedPoll(t, key, fail) })
			})
		}
	}
}

// Nobody leads who cannot promote: a poller that is suspended gives the leader's lock up,
// and asks for it again when it is resumed.
func TestASuspendedPollerDoesNotLead(t *testing.T) {
	testkit.Virtual(t, actors.Config{}, func(t *testing.T, k *testkit.Kit) {
		leader := func() string { return k.Redis.Get(t.Context(), "troupe:poller").Val() }
		for range 2 {
			k.Await("it leads", func() bool { return leader() == k.Identity() })
			k.Suspend("launcher/poller")
			synctest.Wait()
			time.Sleep(time.Minute)
			harness.Equal(t, "while it is suspended, leads", leader(), "")
			k.Resume("launcher/poller")
		}
	}, testkit.Strict())
}

// failedPoll refuses the first command with key, and fails when that is logged.
func failedPoll(t *testing.T, key string, fail func()) {
	mem := testkit.NewMemory(t)
	faults := chaos.NewProxy(t, mem.Options())
	var commands atomic.Int64
	var booted atomic.Bool // what the daemon asks Redis before its tree starts does not count
	faults.Add(chaos.Fault{Do: chaos.Effect{Refuse: "ERR on purpose"}, Mentions: key, Where: func([]string) bool {
		return booted.Load() && commands.Add(1) == 1
	}})
	var failed atomic.Bool
	k := testkit.Start(t, actors.Config{
		Redis: faults.Client(), Strategy: deciding("poller", supervisor.Resume),
		On: actors.Events{Startup: []func(context.Context) error{func(context.Context) error { booted.Store(true); return nil }}},
		Logger: zerolog.New(new(harness.Buffer)).Hook(hookFunc(func(text string) {
			if text == "redis refused a command" && failed.CompareAndSwap(false, true) {
				fail()
			}
		})),
	})
	k.Await("the refusal", failed.Load)
	time.Sleep(190 * time.Second) // each of them comes once a minute, or oftener
	if n := commands.Load(); n < 3 {
		t.Errorf("%d commands with %s in three minutes", n, key)
	}
	if n := k.Tree().Find("launcher/poller"); n.State != actors.StateRunning || n.Restarts != 0 {
		t.Errorf("the poller is %s after %d restarts", n.State, n.Restarts)
	}
}
