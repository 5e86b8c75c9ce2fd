package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestCancelSetsSidekiqsFlagOnce(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	c := client.New(rdb)
	rdb.HSet(ctx, "it-j", "ex", 2, "c", "7", "rt", "1.5")
	before := time.Now().Truncate(time.Second)
	at, err := c.CancelIterable(ctx, "j")
	if err != nil || at.Before(before) || at.After(time.Now()) {
		t.Fatalf("cancelled at %v, %v", at, err)
	}
	rdb.HSet(ctx, "it-j", "cancelled", at.Unix()-60) // somebody was first
	if again, err := c.CancelIterable(ctx, "j"); err != nil || !again.Equal(at.Add(-time.Minute)) {
		t.Errorf("cancelled again at %v, %v", again, err)
	}
	if got := rdb.HGetAll(ctx, "it-j").Val(); len(got) != 4 || got["c"] != "7" || got["ex"] != "2" {
		t.Errorf("the state is %v", got)
	}
	rdb.Set(ctx, "it-k", "text", 0)
	if _, err := c.CancelIterable(ctx, "k"); err == nil || !strings.HasPrefix(err.Error(), "cancel k: WRONGTYPE") {
		t.Errorf("a key of another type: %v", err)
	}
}

func TestCancelIsRepeatedOnceWhereTheMasterIs(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	ctx := t.Context()
	direct := redis.NewClient(&redis.Options{Addr: master.Addr})
	old := redis.NewClient(&redis.Options{Addr: replica.Addr})
	p := newProxy(t, replica.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: p.addr})
	t.Cleanup(func() { _ = direct.Close(); _ = old.Close(); _ = rdb.Close() })
	warm(t, rdb, 3)
	host, port, _ := strings.Cut(master.Addr, ":")
	harness.OK(t, old.Do(ctx, "replicaof", host, port).Err())
	p.target.Store(&master.Addr)
	harness.Must(client.New(rdb).CancelIterable(ctx, "j"))(t)
	if !direct.HExists(ctx, "it-j", "cancelled").Val() {
		t.Error("the flag is not on the master")
	}
}
