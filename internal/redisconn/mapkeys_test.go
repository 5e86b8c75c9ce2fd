package redisconn_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestMap(t *testing.T) {
	plain, url := redistest.New(t)
	ctx := t.Context()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	redisconn.MapKeys(rdb, func(key string) string { return "ns:" + key })

	rdb.Set(ctx, "a", "1", 0)
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { p.RPush(ctx, "b", "a", "b"); p.SAdd(ctx, "c", "a"); return nil })
	_, _ = rdb.TxPipelined(ctx, func(p redis.Pipeliner) error { p.ZAdd(ctx, "d", redis.Z{Member: "d"}); return nil })
	rdb.LMove(ctx, "b", "e", "LEFT", "RIGHT")
	rdb.Do(ctx, "blmove", "b", "e", "LEFT", "RIGHT", 1)
	set := script.New("test.set", "redis.call('SET', KEYS[2], ARGV[1]) return {KEYS[1]}")
	if got := set.Run(ctx, rdb, []string{"f", "g"}, "v").Val(); len(got.([]any)) != 1 || got.([]any)[0] != "ns:f" {
		t.Errorf("script: %v", got)
	}
	again := script.New("test.again", "redis.call('SET', KEYS[1], ARGV[1]) return {KEYS[1]}")
	key := "h"
	for range 2 { // the first one is not known to the server and is sent twice
		got, err := again.Flat(ctx, rdb, []any{nil, nil, 1, &key, "v"})
		if err != nil || !slices.Equal(got, []string{"ns:h"}) || key != "h" {
			t.Errorf("flat script: %v, %v", got, err)
		}
	}
	harness.Equal(t, "keys", rdb.Exists(ctx, "a", "c", "d", "e", "g", "h").Val(), 6)
	all := plain.Keys(ctx, "*").Val()
	slices.Sort(all)
	harness.EqualList(t, "keys", all, strings.Fields("ns:a ns:c ns:d ns:e ns:g ns:h"))
	found, _, err := rdb.Scan(ctx, 0, "[ab]", 100).Result()
	if slices.Sort(found); err != nil || !slices.Equal(found, []string{"ns:a"}) {
		t.Errorf("scan: %q, %v", found, err)
	}
	if err := rdb.Scan(ctx, 0, "", 100).Err(); err == nil {
		t.Error("a scan of the keys of others is carried out")
	}
	harness.ErrorHas(t, "a command that is not known", rdb.SInterStore(ctx, "x", "c", "d").Err(), "sinterstore")
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { p.Get(ctx, "a"); p.BitCount(ctx, "a", nil); return nil })
	if err == nil {
		t.Error("no error of a pipeline with a command that is not known")
	}
	harness.Check(t, rdb.Ping(context.Background()).Err())
}

func TestAClusterIsRefused(t *testing.T) {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer func() { _ = c.Close() }()
	redisconn.MapKeys(c, func(key string) string { return key })
	if err := c.Get(t.Context(), "a").Err(); err == nil || !strings.Contains(err.Error(), "namespace") {
		t.Errorf("error %v", err)
	}
}
