package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestShardedPushesToTheShardOfTheQueue(t *testing.T) {
	a, _ := redistest.New(t)
	b, _ := redistest.New(t)
	ctx := t.Context()
	s, err := client.NewSharded([]client.Shard{
		{Name: "a", Redis: a, Queues: []string{"default", "orders"}},
		{Name: "b", Redis: b, Queues: []string{"mail"}},
	})
	harness.OK(t, err)
	push := func(_ string, err error) {
		t.Helper()
		harness.OK(t, err)
	}
	push(s.PushClass(ctx, "A", nil))
	push(s.PushClass(ctx, "A", nil, client.Queue("orders")))
	push(s.PushClass(ctx, "A", nil, client.Queue("mail")))
	push(s.PushClass(ctx, "A", nil, client.Queue("mail"), client.In(time.Hour)))
	p := harness.Must(troupe.ParsePayload([]byte(`{"class":"A","args":[],"queue":"mail"}`)))(t)
	push(s.PushPayload(ctx, p))
	p.Delete("queue")
	push(s.PushPayload(ctx, p))
	for _, tt := range []struct {
		rdb  *redis.Client
		key  string
		want int64
	}{{a, "queue:default", 2}, {a, "queue:orders", 1}, {a, "queue:mail", 0}, {b, "queue:mail", 2}, {b, "queue:default", 0}} {
		harness.Equal(t, tt.key+": jobs", tt.rdb.LLen(ctx, tt.key).Val(), tt.want)
	}
	if a.ZCard(ctx, "schedule").Val() != 0 || b.ZCard(ctx, "schedule").Val() != 1 {
		t.Error("the scheduled job is not on its queue's shard")
	}
	if c, err := s.Queue("mail"); err != nil || c == nil {
		t.Errorf("%v, %v", c, err)
	}
	_, err = s.PushClass(ctx, "A", nil, client.Queue("elsewhere"))
	if field, ok := errors.AsType[*client.FieldError](err); !ok || field.Got != `"elsewhere"` || field.Want != "one of the shards: default, mail, orders" {
		t.Errorf("a queue of no shard: %v", err)
	}
}

func TestShardedRefusesMiddlewareThatMovesAJob(t *testing.T) {
	a, _ := redistest.New(t)
	b, _ := redistest.New(t)
	moves := func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			if p.Class() == "Mover" {
				p.SetString("queue", "b")
			}
			return next(ctx, p)
		}
	}
	s, err := client.NewSharded([]client.Shard{{"a", a, []string{"a"}}, {"b", b, []string{"b"}}},
		client.WithMiddleware(moves), client.WithDefaults(client.Queue("a")))
	harness.OK(t, err)
	if _, err := s.PushClass(t.Context(), "Mover", nil); err == nil || !strings.Contains(err.Error(), `got "b", want one of shard a: a`) {
		t.Errorf("moved: %v", err)
	}
	if _, err := s.PushClass(t.Context(), "Other", nil); err != nil || a.LLen(t.Context(), "queue:a").Val() != 1 {
		t.Errorf("the default queue: %v", err)
	}
	if n := a.Exists(t.Context(), "queue:b").Val(); n != 0 {
		t.Error("a job stands on the wrong shard")
	}
}

func TestNewShardedTellsEveryFault(t *testing.T) {
	rdb, _ := redistest.New(t)
	_, err := client.NewSharded([]client.Shard{{"a", rdb, []string{"q"}}, {"a", nil, nil}, {"b", rdb, []string{"q"}}})
	for _, want := range []string{`named "a"`, "Redis is nil", "no queues", `queue "q" is on a already`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if _, err := client.NewSharded(nil); err == nil {
		t.Error("no shards were accepted")
	}
}
