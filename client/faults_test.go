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

// An option whose value cannot be, or that contradicts another one, fails the push as a fault of that field.
func TestOptionsThatCannotBe(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	c := client.New(rdb)
	at := time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, opts := range map[string][]client.Option{
		"Unique.Until: got UniqueUntil(7), want UntilDone, UntilStart or UntilPeriod":                   {client.Unique(troupe.Unique{Until: 7})},
		"Unique.For: got -1s, want a millisecond or more":                                               {client.Unique(troupe.Unique{For: -time.Second})},
		"Unique.For: got 0, want the period of UntilPeriod":                                             {client.Unique(troupe.Unique{Until: troupe.UntilPeriod})},
		`Unique.By[1]: got empty, want a place such as "0", "0.id" or "id"`:                             {client.Unique(troupe.Unique{By: []string{"0", ""}})},
		`Unique.By: got "0.id", want a place that the arguments have`:                                   {client.Unique(troupe.Unique{By: []string{"0.id"}})},
		"Debounce: got it for a unique job, want one of both: of a type that is unique, with NotUnique": {client.Unique(troupe.Unique{}), client.Debounce("k", time.Second, 0)},
		"t_deadline: got 2100-01-02T03:04:05Z, want a time after 2100-01-02T04:04:05Z, when the job is due": {
			client.ExpireAt(at), client.At(at.Add(time.Hour)),
		},
		`expires_in: got "soon", want a number of seconds above 0`:          {client.Set("expires_in", "soon")},
		`Set: got "t_next", want a field that has no other way to be given`: {client.Set("t_next", []int{})},
	} {
		_, err := c.PushClass(t.Context(), "A", []any{1}, opts...)
		if fault, ok := errors.AsType[*client.FieldError](err); !ok || fault.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		_, err = c.PushChain(t.Context(), client.Job(charge{}, opts...))
		if _, ok := errors.AsType[*client.FieldError](err); !ok {
			t.Errorf("a chain: %v, want a *client.FieldError", err)
		}
	}
}

// On a Redis Cluster a chain cannot go from queue to queue: that is told at its push, and not by its dead first job.
func TestAChainHasOneQueueOnACluster(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRedirects: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	_, err := client.New(rdb).PushChain(t.Context(), client.Job(charge{}), client.Job(charge{}), client.Job(charge{}, client.Queue("low")))
	const want = `queue: got "low" for job 3 of a chain, want "default", as of the first job: on a Redis Cluster each queue is in a slot of its own`
	if fault, ok := errors.AsType[*client.FieldError](err); !ok || fault.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
