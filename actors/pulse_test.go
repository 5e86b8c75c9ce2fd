package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// A crash is in Redis within the second, a storm of them once a second, and the pulse goes with a
// clean stop.
func TestACrashIsPublishedAtOnce(t *testing.T) {
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "Sits", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		<-ctx.Done()
		return ctx.Err()
	}))
	testkit.Virtual(t, actors.Config{Registry: &jobs, Concurrency: 3, Tag: "shop"}, func(t *testing.T, k *testkit.Kit) {
		ctx := t.Context()
		read := func() (p beat.Pulse) {
			t.Helper()
			synctest.Wait()
			harness.OK(t, json.Unmarshal([]byte(k.Redis.Get(ctx, keys.Pulse(k.Daemon.Identity())).Val()), &p))
			return p
		}
		harness.Must(k.Client.PushClass(ctx, "Sits", []any{}))(t)
		time.Sleep(11 * time.Second)
		p := read()
		if p.Phase != "running" || p.Tag != "shop" || p.Restarts != 0 || len(p.Actors) != 0 || len(p.Capsules) != 1 || p.Oldest == 0 || p.Taken["default"] != 1 ||
			p.Capsules[0] != (beat.PulseCapsule{Name: "default", Busy: 1, Idle: 2}) {
			t.Errorf("at first: %+v", p)
		}
		began := time.Now()
		for i := range 3 {
			k.Crash("launcher/default/processor-2", errors.New("boom"))
			time.Sleep(time.Second)
			if p := read(); p.Recent < i || !strings.HasPrefix(p.Failure, "default/processor-2: boom") || p.At < float64(began.Unix()) {
				t.Errorf("after %v: %+v", time.Since(began), p)
			}
		}
		time.Sleep(10 * time.Second)
		if p := read(); p.Restarts != 3 || p.Recent != 3 {
			t.Errorf("after three restarts: %+v", p)
		}
		time.Sleep(time.Minute)
		if p := read(); p.Restarts != 3 || p.Recent != 0 {
			t.Errorf("a minute later: %+v", p)
		}
		k.Daemon.Quiet()
		time.Sleep(time.Second)
		if p := read(); p.Phase != "quiet" {
			t.Errorf("quiet: %+v", p)
		}
		k.Stop()
		harness.Equal(t, "keys are left after the stop", k.Redis.Exists(ctx, keys.Pulse(k.Daemon.Identity()), keys.Pulses).Val(), 0)
	})
}
