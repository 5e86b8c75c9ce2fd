package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// mailed has a queue of its own.
type mailed struct {
	N int `arg:"0"`
}

func (mailed) Class() string { return "Mail" }
func (mailed) Defaults() troupe.Options {
	return troupe.Options{Queue: "mail", Retries: troupe.Times(5)}
}

func TestPushManyTakesEachJobWithItsOwnOptions(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	jids, err := client.New(rdb).PushMany(ctx,
		client.Job(marked{1}), client.Job(mailed{2}, client.JID("mine")),
		client.Job(marked{3}, client.Queue("low"), client.Never()), client.Job(marked{4}, client.In(time.Hour)), client.Job(marked{5}))
	if err != nil || len(jids) != 5 || jids[1] != "mine" || slices.Contains(jids, "") {
		t.Fatalf("%q, %v", jids, err)
	}
	harness.Equal(t, "jobs are scheduled", rdb.ZCard(ctx, "schedule").Val(), 1)
	for key, want := range map[string][]string{
		"queue:default": {`"args":[5]`, `"args":[1]`},
		"queue:mail":    {`{"retry":5,"queue":"mail","class":"Mail","args":[2],"jid":"mine",`},
		"queue:low":     {`{"retry":false,"queue":"low","class":"Mark","args":[3],`},
	} {
		got := rdb.LRange(ctx, key, 0, -1).Val()
		if len(got) != len(want) {
			t.Errorf("%s: %q", key, got)
			continue
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: %s lacks %s", key, got[i], want[i])
			}
		}
	}
}

func TestPushManyFailsAWholeBatch(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb)
	items := make([]client.Item, 1000, 1002)
	for i := range items {
		items[i] = client.Job(marked{i})
	}
	items = append(items, client.Job(marked{1000}), client.Job(marked{1001}, client.Retry(-1)))
	jids, err := c.PushMany(t.Context(), items...)
	if field, ok := errors.AsType[*client.FieldError](err); !ok || field.Field != "retry" || !strings.Contains(err.Error(), "job 1002 of 1002") {
		t.Errorf("%v", err)
	}
	if len(jids) != 1002 || jids[999] == "" || jids[1000] != "" || rdb.LLen(t.Context(), "queue:default").Val() != 1000 {
		t.Errorf("%d jids, %d jobs", len(jids), rdb.LLen(t.Context(), "queue:default").Val())
	}
	if jids, err := c.PushMany(t.Context()); err != nil || len(jids) != 0 {
		t.Errorf("nothing: %q, %v", jids, err)
	}
	if _, err := c.PushMany(t.Context(), client.Job(marked{1}, client.Spread(time.Hour))); err == nil || !strings.Contains(err.Error(), "Spread") {
		t.Errorf("an option of PushBulk: %v", err)
	}
}

func TestShardedPushManySendsEachJobToItsShard(t *testing.T) {
	a, _ := redistest.New(t)
	b, _ := redistest.New(t)
	ctx := t.Context()
	s, err := client.NewSharded([]client.Shard{{Name: "a", Redis: a, Queues: []string{"default", "low"}}, {Name: "b", Redis: b, Queues: []string{"mail"}}})
	harness.OK(t, err)
	jids, err := s.PushMany(ctx, client.Job(marked{1}), client.Job(mailed{2}, client.JID("second")), client.Job(marked{3}, client.Queue("low")))
	if err != nil || len(jids) != 3 || jids[1] != "second" || slices.Contains(jids, "") {
		t.Errorf("%q, %v", jids, err)
	}
	if a.LLen(ctx, "queue:default").Val() != 1 || a.LLen(ctx, "queue:low").Val() != 1 || b.LLen(ctx, "queue:mail").Val() != 1 {
		t.Error("a job is not on its shard")
	}
	if _, err := s.PushMany(ctx, client.Job(marked{1}), client.Job(marked{2}, client.Queue("nowhere"))); err == nil || a.LLen(ctx, "queue:default").Val() != 1 {
		t.Errorf("an unknown queue: %v", err)
	}
}

// The client of one shard takes no job of another's queue, whichever way it comes.
func TestAClientOfOneShardRefusesTheQueuesOfAnother(t *testing.T) {
	a, _ := redistest.New(t)
	b, _ := redistest.New(t)
	ctx := t.Context()
	s, err := client.NewSharded([]client.Shard{{Name: "a", Redis: a, Queues: []string{"default"}}, {Name: "b", Redis: b, Queues: []string{"mail"}}})
	harness.OK(t, err)
	c := harness.Must(s.Queue("default"))(t)
	push := map[string]func() error{
		"bulk":  func() error { _, err := client.PushBulk(ctx, c, slices.Values([]mailed{{1}})); return err },
		"class": func() error { _, err := c.PushClass(ctx, "A", nil, client.Queue("mail")); return err },
		"one":   func() error { _, err := c.Push(ctx, mailed{1}); return err },
		"many":  func() error { _, err := c.PushMany(ctx, client.Job(mailed{1})); return err },
		"payload": func() error {
			_, err := c.PushPayload(ctx, parse(t, `{"class":"A","args":[],"queue":"mail"}`))
			return err
		},
	}
	for name, f := range push {
		if field, ok := errors.AsType[*client.FieldError](f()); !ok || !strings.HasPrefix(field.Want, "one of shard a: ") {
			t.Errorf("%s: %v", name, f())
		}
	}
	if other, _ := s.Queue("mail"); other != nil {
		if _, err := client.PushBulk(ctx, other, slices.Values([]mailed{{1}})); err != nil {
			t.Errorf("the type's queue, with defaults that are on another shard: %v", err)
		}
	}
	if n := a.Exists(ctx, "queue:mail").Val(); n != 0 {
		t.Error("a job stands on the wrong shard")
	}
}

func TestNilIsAnErrorAndNoPanic(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	c := client.New(rdb)
	s := harness.Must(client.NewSharded([]client.Shard{{Name: "a", Redis: rdb, Queues: []string{"default"}}}))(t)
	var none *marked
	for _, p := range []client.Pusher{c, s} {
		for name, args := range map[string]troupe.Args{"nil": nil, "a nil pointer": none} {
			_, one := p.Push(ctx, args)
			_, many := p.PushMany(ctx, client.Job(marked{1}), client.Job(args))
			for _, err := range []error{one, many} {
				if field, ok := errors.AsType[*client.FieldError](err); !ok || field.Field != "args" || !strings.Contains(err.Error(), "troupe.Args") {
					t.Errorf("%T, %s: %v", p, name, err)
				}
			}
		}
		if _, err := p.Push(ctx, marked{1}, nil); err == nil || !strings.Contains(err.Error(), "option: got nil") {
			t.Errorf("a nil option: %v", err)
		}
		if _, err := p.(interface {
			PushPayload(context.Context, *troupe.Payload) (string, error)
		}).PushPayload(ctx, nil); err == nil {
			t.Error("a nil payload was pushed")
		}
	}
	if _, err := client.PushBulk(ctx, c, slices.Values([]*marked{{1}, nil})); err == nil || !strings.Contains(err.Error(), "a nil *client_test.marked") {
		t.Errorf("bulk: %v", err)
	}
	harness.Equal(t, "keys were written", rdb.DBSize(ctx).Val(), 0)
}
