package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

type sealedCharge struct {
	ID   int    `arg:"0"`
	Card string `arg:"1"`
}

func (sealedCharge) Class() string { return "Charge" }

func (sealedCharge) Defaults() troupe.Options { return troupe.Options{Encrypt: true} }

var keysOneTwo = troupe.Encryption{Active: 1, Keys: map[int][]byte{1: make([]byte, troupe.KeySize), 2: []byte(strings.Repeat("k", troupe.KeySize))}}

// Whichever way a job is pushed: nothing in Redis has its last argument in clear, and the middleware sees it.
func TestEveryPushSeals(t *testing.T) {
	job := sealedCharge{7, "clear-4711"}
	one := func(_ string, err error) error { return err }
	many := func(_ []string, err error) error { return err }
	for name, push := range map[string]func(ctx context.Context, c *client.Client) error{
		"Push":       func(ctx context.Context, c *client.Client) error { return one(c.Push(ctx, job)) },
		"Push later": func(ctx context.Context, c *client.Client) error { return one(c.Push(ctx, job, client.In(1e12))) },
		"Push unique": func(ctx context.Context, c *client.Client) error {
			return one(c.Push(ctx, job, client.Unique(troupe.Unique{})))
		},
		"Push debounced": func(ctx context.Context, c *client.Client) error {
			return one(c.Push(ctx, job, client.Debounce("k", 1e12, 0)))
		},
		"PushClass": func(ctx context.Context, c *client.Client) error {
			return one(c.PushClass(ctx, "Charge", []any{7, "clear-4711"}, client.Encrypt(true)))
		},
		"PushJSON": func(ctx context.Context, c *client.Client) error {
			return one(c.PushJSON(ctx, "Charge", []byte(`[7, "clear-4711"]`), client.Encrypt(true)))
		},
		"PushBulk": func(ctx context.Context, c *client.Client) error {
			return many(client.PushBulk(ctx, c, slices.Values([]sealedCharge{job})))
		},
		"PushBulkClass": func(ctx context.Context, c *client.Client) error {
			return many(c.PushBulkClass(ctx, "Charge", slices.Values([][]any{{7, "clear-4711"}}), client.Encrypt(true)))
		},
		"PushMany": func(ctx context.Context, c *client.Client) error {
			return many(c.PushMany(ctx, client.Job(job)))
		},
		"PushChain": func(ctx context.Context, c *client.Client) error {
			return many(c.PushChain(ctx, client.Job(job), client.Job(job)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			ctx := t.Context()
			var seen string
			c := client.New(rdb, client.WithEncryption(keysOneTwo), client.WithMiddleware(func(next client.PushFunc) client.PushFunc {
				return func(ctx context.Context, p *troupe.Payload) error {
					seen = string(p.Args())
					return next(ctx, p)
				}
			}))
			for _, c := range []*client.Client{c, client.New(rdb, client.WithEncryption(keysOneTwo))} {
				if rdb.FlushDB(ctx); push(ctx, c) != nil {
					t.Fatal(push(ctx, c))
				}
				raw := strings.Join(append(rdb.LRange(ctx, "queue:default", 0, -1).Val(), rdb.ZRange(ctx, "schedule", 0, -1).Val()...), "\n")
				if strings.Contains(raw, "clear-4711") || !strings.Contains(raw, `"args":[7,"troupe.enc.1:1:`) || strings.Contains(raw, "t_seal") || strings.Contains(raw, `"encrypt"`) {
					t.Errorf("Redis has %s", raw)
				}
				p, err := troupe.ParsePayload([]byte(strings.Split(raw, "\n")[0]))
				harness.OK(t, err)
				harness.OK(t, c.Open(p))
				harness.Equal(t, "opened", string(p.Args()), `[7,"clear-4711"]`)
			}
			harness.Equal(t, "seen by the middleware", seen, `[7,"clear-4711"]`)
		})
	}
}

// A push without keys is refused, and so are keys that are none.
func TestEncryptWithoutKeys(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	_, err := client.New(rdb).Push(ctx, sealedCharge{})
	field, _ := errors.AsType[*client.FieldError](err)
	if field == nil || field.Field != "Encrypt" {
		t.Errorf("without keys: %v", err)
	}
	if _, err := client.New(rdb).Push(ctx, sealedCharge{1, "x"}, client.Encrypt(false)); err != nil {
		t.Errorf("Encrypt(false): %v", err)
	}
	harness.Equal(t, "jobs", rdb.LLen(ctx, "queue:default").Val(), 1)
	for want, e := range map[string]troupe.Encryption{
		"Encryption.Keys[1] has 31 bytes, expected 32":          {Keys: map[int][]byte{1: make([]byte, 31)}},
		"Encryption.Keys has version 0, expected versions":      {Keys: map[int][]byte{0: make([]byte, 32)}},
		"Encryption.Active is 2, expected a version that Keys":  {Keys: map[int][]byte{1: make([]byte, 32)}, Active: 2},
		"Encryption.Active is -1, expected a version that Keys": {Active: -1},
	} {
		harness.ErrorHas(t, "new", client.New(rdb, client.WithEncryption(e)).Err(), want)
	}
	harness.ErrorHas(t, "defaults", client.New(rdb, client.WithDefaults(client.Encrypt(true))).Err(), "WithDefaults")
}

// The lock of a unique job is that of its arguments: sealing makes each text another one.
func TestTheLockOfASealedJobIsThatOfItsArguments(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	c := client.New(rdb, client.WithEncryption(keysOneTwo))
	first, err := c.Push(ctx, sealedCharge{1, "x"}, client.Unique(troupe.Unique{}))
	harness.OK(t, err)
	_, err = c.Push(ctx, sealedCharge{1, "x"}, client.Unique(troupe.Unique{}))
	if dup, ok := errors.AsType[*client.DuplicateError](err); !ok || dup.Holder != first {
		t.Errorf("the second: %v", err)
	}
}
