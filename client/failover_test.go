package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// A name that pointed at a master now points at another one, while the pool
// still has connections to the old one, which is a replica now.
func TestReadonlyIsRepeatedOnceOnANewConnection(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	ctx := t.Context()
	direct := redis.NewClient(&redis.Options{Addr: master.Addr})
	old := redis.NewClient(&redis.Options{Addr: replica.Addr})
	t.Cleanup(func() { _ = direct.Close(); _ = old.Close() })
	host, port, _ := strings.Cut(master.Addr, ":")

	for _, retries := range []int{-1, 3} {
		direct.FlushAll(ctx)
		p := newProxy(t, replica.Addr)
		rdb := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: retries})
		old.Do(ctx, "replicaof", "no", "one")
		warm(t, rdb, 5) // connections to the old master
		harness.OK(t, old.Do(ctx, "replicaof", host, port).Err())
		p.target.Store(&master.Addr)
		c := client.New(rdb)

		if _, err := c.PushMany(ctx, client.Job(marked{1}, client.Queue("q")), client.Job(marked{2}, client.Queue("q"), client.In(time.Hour))); err != nil {
			t.Fatalf("MaxRetries %d: %v", retries, err)
		}
		if n, z := direct.LLen(ctx, "queue:q").Val(), direct.ZCard(ctx, "schedule").Val(); n != 1 || z != 1 {
			t.Errorf("MaxRetries %d: %d in the queue, %d scheduled, want 1 and 1", retries, n, z)
		}
		if !direct.SIsMember(ctx, "queues", "q").Val() {
			t.Error("the new master does not know the queue")
		}

		// With a replica behind every connection the error comes through, once repeated.
		p.target.Store(&replica.Addr)
		conns := p.conns.Load()
		if _, err := c.Push(ctx, marked{3}); err == nil || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("got %v", err)
		}
		if n := p.conns.Load() - conns; n > 2 {
			t.Errorf("%d new connections, want one for the second try", n)
		}
		_ = rdb.Close()
	}
}

func TestNoReplicasIsRepeated(t *testing.T) {
	s := redistest.Start(t, "--min-replicas-to-write", "1")
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = rdb.Close() }()
	_, err := client.New(rdb).Push(t.Context(), marked{1})
	if err == nil || !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("got %v", err)
	}
	rdb.ConfigSet(t.Context(), "min-replicas-to-write", "0")
	if n := rdb.Exists(t.Context(), "queue:default").Val(); n != 0 {
		t.Error("a refused push was written")
	}
}

func warm(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	var conns []*redis.Conn
	for range n {
		c := rdb.Conn()
		harness.OK(t, c.Ping(t.Context()).Err())
		conns = append(conns, c)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	for range n { // the pool for pipelines is another one
		pipe := rdb.Pipeline()
		pipe.Ping(t.Context())
		_, _ = pipe.Exec(t.Context())
	}
}

// go-redis would repeat a pipeline whose reply was lost, and the job would be there twice.
func TestALostReplyIsNotRepeated(t *testing.T) {
	shared, _ := redistest.New(t)
	ctx := context.Background()
	p := newProxy(t, shared.Options().Addr)
	rdb := redis.NewClient(&redis.Options{Addr: p.addr, DB: shared.Options().DB}) // MaxRetries 3, the default
	defer func() { _ = rdb.Close() }()
	c := client.New(rdb)
	warm(t, rdb, 1)
	p.cut.Store(true)
	if _, err := c.Push(ctx, marked{1}); err == nil {
		t.Error("a push without a reply succeeded")
	}
	harness.Equal(t, "the job is there times", shared.LLen(ctx, "queue:default").Val(), 1)
	if _, err := c.Push(ctx, marked{2}); err != nil {
		t.Errorf("the next push: %v", err)
	}
}

func TestPushToACluster(t *testing.T) {
	s := redistest.Alone(t)
	ctx := t.Context()
	admin := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = admin.Close() }()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr}})
	defer func() { _ = rdb.Close() }()
	c := client.New(rdb)
	harness.Must(c.Push(ctx, marked{1}))(t)
	harness.Must(c.Push(ctx, marked{1}, client.In(time.Hour)))(t)
	if admin.LLen(ctx, "queue:default").Val() != 1 || admin.ZCard(ctx, "schedule").Val() != 1 {
		t.Error("not pushed")
	}
}
