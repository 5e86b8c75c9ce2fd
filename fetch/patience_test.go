package fetch

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
)

// Redis that ends no wait when it is asked to keeps no Close from leaving in the time it has.
func TestCloseLeavesInItsTime(t *testing.T) {
	m := miniredis.RunT(t) // it has no CLIENT UNBLOCK
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	f := harness.Must(NewReliable(Env{Redis: rdb, Identity: "i", Capsule: "c", Queues: Strict{"q"}, Logger: zerolog.Nop()}))(t)
	ctx := t.Context()
	harness.OK(t, f.Open(ctx))
	waiting, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	_ = f.Wait(waiting, time.Minute)
	closing, end := context.WithTimeout(ctx, time.Second)
	defer end()
	if left, err := f.Close(closing); left != 0 || err != nil {
		t.Fatal(left, err)
	}
	if m.Exists("troupe:places") || m.Exists("troupe:inprogress:i#c.1") || m.Exists("troupe:lease:i#c.1") {
		t.Errorf("it has left %v behind", m.Keys())
	}
}
