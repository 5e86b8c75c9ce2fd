package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// Each call of a client that cannot push says what is missing, and none panics.
func TestAClientThatCannotPushSaysWhy(t *testing.T) {
	ctx := t.Context()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	const notMade = "client: got nil or the zero Client, want one that client.New has made"
	const noRedis = "client.New: got a nil redis client, want one that is connected to the Redis of the jobs"
	none := func(client.PushFunc) client.PushFunc { return nil }
	for _, c := range []struct {
		c    *client.Client
		want string
	}{
		{nil, notMade},
		{new(client.Client), notMade},
		{client.New(nil), noRedis},
		{client.New((*redis.Client)(nil)), noRedis},
		{client.New(rdb, nil), "option: got nil, want an option"},
		{client.New(rdb, client.WithDefaults(nil)), "option: got nil, want an option"},
		{client.New(rdb, client.WithMiddleware(nil)), "WithMiddleware[0]: got nil, want a Middleware"},
		{client.New(rdb, client.WithMiddleware(none)), "WithMiddleware[0]: got a Middleware that returns nil, want one that returns a PushFunc"},
	} {
		if err := c.c.Err(); err == nil || err.Error() != c.want {
			t.Errorf("Err: %v, want %s", err, c.want)
		}
		p, _ := troupe.ParsePayload([]byte(`{"class":"A","args":[],"queue":"q"}`))
		for name, call := range map[string]func() error{
			"Push":           func() error { _, err := c.c.Push(ctx, charge{}); return err },
			"PushClass":      func() error { _, err := c.c.PushClass(ctx, "A", nil); return err },
			"PushJSON":       func() error { _, err := c.c.PushJSON(ctx, "A", []byte("[]")); return err },
			"PushPayload":    func() error { _, err := c.c.PushPayload(ctx, p); return err },
			"PushMany":       func() error { _, err := c.c.PushMany(ctx, client.Job(charge{})); return err },
			"PushBulk":       func() error { _, err := client.PushBulk(ctx, c.c, slices.Values([]charge{{}})); return err },
			"PushBulkClass":  func() error { _, err := c.c.PushBulkClass(ctx, "A", slices.Values([][]any{{}})); return err },
			"Prepare":        func() error { _, err := c.c.Prepare(ctx, p, time.Now()); return err },
			"CancelIterable": func() error { _, err := c.c.CancelIterable(ctx, "j"); return err },
			"Flush":          func() error { return c.c.Flush(ctx) },
			"Close":          func() error { return c.c.Close(context.Background()) },
		} {
			if fault, ok := errors.AsType[*client.FieldError](call()); !ok || fault.Error() != c.want {
				t.Errorf("%s: %v, want %s", name, fault, c.want)
			}
		}
	}
	if err := client.New(rdb).Err(); err != nil {
		t.Errorf("a client that can: %v", err)
	}
}
