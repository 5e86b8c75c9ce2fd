package actors_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// secretArgs is a job whose only argument is sealed.
type secretArgs struct {
	Card string `json:"card"`
	Fail bool   `json:"fail"`
}

func (secretArgs) Class() string { return "Secret" }

func (secretArgs) Defaults() troupe.Options { return troupe.Options{Encrypt: true} }

const secretCard = "card-4711"

// encryption has keys of these versions.
func encryption(versions ...int) troupe.Encryption {
	e := troupe.Encryption{Keys: map[int][]byte{}}
	for _, v := range versions {
		e.Keys[v] = bytes.Repeat([]byte{byte(v)}, troupe.KeySize)
	}
	return e
}

// everything is all that Redis has, as text.
func everything(t *testing.T, rdb redis.UniversalClient) string {
	t.Helper()
	var all strings.Builder
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		all.WriteString(key + " ")
		switch rdb.Type(t.Context(), key).Val() {
		case "list":
			all.WriteString(strings.Join(rdb.LRange(t.Context(), key, 0, -1).Val(), " "))
		case "zset":
			all.WriteString(strings.Join(rdb.ZRange(t.Context(), key, 0, -1).Val(), " "))
		case "hash":
			for field, value := range rdb.HGetAll(t.Context(), key).Val() {
				all.WriteString(field + " " + value + " ")
			}
		case "string":
			all.WriteString(rdb.Get(t.Context(), key).Val())
		}
		all.WriteByte('\n')
	}
	return all.String()
}

// The handler has its arguments in clear. Redis never has, whatever becomes of the job, and neither has what is told of it.
func TestSealedArgumentsAreInClearForTheHandlerOnly(t *testing.T) {
	for name, result := range map[string]error{
		"done": nil, "failed": errors.New("no"), "dead": troupe.Kill(errors.New("no")), "parked": troupe.Park(time.Hour, nil), "moved": troupe.MoveTo("other"),
		"shutdown": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			var r troupe.Registry
			seen, during := make(chan secretArgs, 1), ""
			cfg := actors.Config{Registry: &r, Encryption: encryption(1), Redis: testkit.Redis(t)}
			troupe.Handle(&r, func(ctx context.Context, job *troupe.Job[secretArgs]) error {
				during = everything(t, cfg.Redis)
				seen <- job.Args
				if result == nil { // a child, with the ack
					_, err := client.Within(ctx).Push(ctx, job.Args, client.Queue("idle"))
					return err
				}
				return result
			})
			told := func(p *troupe.Payload) {
				if strings.Contains(string(p.Bytes()), secretCard) {
					t.Errorf("a handler of failures was given %s", p.Bytes())
				}
			}
			cfg.ErrorHandlers = []actors.ErrorHandler{func(_ context.Context, _ error, in actors.ErrorContext) { told(in.Payload) }}
			cfg.DeathHandlers = []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, _ error) { told(p) }}
			k := testkit.Start(t, cfg)
			_, err := k.Client.Push(t.Context(), secretArgs{Card: secretCard})
			harness.OK(t, err)
			harness.Equal(t, "args", (<-seen).Card, secretCard)
			k.Await("it is settled", k.Settled)
			k.Stop()
			after := everything(t, k.Redis)
			for when, text := range map[string]string{"during the run": during, "after it": after} {
				if strings.Contains(text, secretCard) || strings.Contains(text, "t_seal") {
					t.Errorf("%s Redis has\n%s", when, text)
				}
			}
			if !strings.Contains(after, `"args":["troupe.enc.1:1:`) {
				t.Errorf("after the run Redis has\n%s", after)
			}
		})
	}
}

// A job that cannot be opened is not lost, whatever it says of retries, and runs when its key is there.
func TestASealedJobWaitsForItsKey(t *testing.T) {
	for name, opts := range map[string][]client.Option{
		"by default": nil, "never retried": {client.Never()}, "never retried, not kept": {client.Never(), client.Dead(false)}, "once, not kept": {client.Retry(0), client.Dead(false)},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			c := client.New(rdb, client.WithEncryption(encryption(1, 2)))
			_, err := c.Push(t.Context(), secretArgs{Card: secretCard}, opts...)
			harness.OK(t, err)
			var r troupe.Registry
			ran := make(chan string, 1)
			troupe.Handle(&r, func(_ context.Context, job *troupe.Job[secretArgs]) error {
				ran <- job.Args.Card
				return nil
			})
			k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Encryption: encryption(1)})
			set := inspect.New(rdb).RetrySet
			if strings.HasPrefix(name, "once") {
				set = inspect.New(rdb).DeadSet
			}
			var kept *inspect.SortedEntry
			k.Await("it is kept", func() bool {
				for e, err := range set.Each(t.Context()) {
					harness.OK(t, err)
					kept = e
				}
				return kept != nil
			})
			k.Stop()
			sum := kept.Summary()
			harness.Equal(t, "error class", sum.ErrorClass, "Troupe::Sealed")
			harness.Equal(t, "error", sum.ErrorMessage, "the last argument is sealed (key version 2) and was not opened: this process has key version 1")
			harness.Equal(t, "shown", string(sum.Args), `["[sealed (key version 2)]"]`)
			k = testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Encryption: encryption(1, 2)})
			_, err = kept.Retry(t.Context())
			harness.OK(t, err)
			harness.Equal(t, "args", <-ran, secretCard)
			k.Await("it is settled", k.Settled)
		})
	}
}

// Keys are changed while jobs run: what the old key has sealed is opened, a retry is the same text.
func TestRotationOfKeys(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	troupe.Handle(&r, func(_ context.Context, job *troupe.Job[secretArgs]) error {
		if job.Args.Card != secretCard {
			t.Errorf("args are %v", job.Args)
		}
		if job.Args.Fail && job.Attempt == 1 {
			return troupe.RetryIn(time.Millisecond, errors.New("once more"))
		}
		return nil
	})
	const each = 20
	for i, e := range []troupe.Encryption{encryption(1), {Active: 1, Keys: encryption(1, 2).Keys}, encryption(1, 2)} {
		c := client.New(rdb, client.WithEncryption(e))
		for n := range each {
			_, err := c.Push(t.Context(), secretArgs{secretCard, n%2 == 0})
			harness.OK(t, err)
		}
		all := rdb.LRange(t.Context(), "queue:default", 0, -1).Val()
		old := 0
		for _, raw := range all {
			if strings.Contains(raw, "troupe.enc.1:1:") {
				old++
			}
		}
		harness.Equal(t, "sealed with key 1", old, min(i+1, 2)*each)
	}
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Encryption: encryption(1, 2)})
	k.Await("all are done", func() bool {
		return rdb.Get(t.Context(), "stat:processed").Val() == "90" && rdb.ZCard(t.Context(), "retry").Val() == 0
	})
}

// A periodic job has its arguments sealed in its entry, too.
func TestPeriodicJobsAreSealed(t *testing.T) {
	var r troupe.Registry
	ran := 0
	troupe.Handle(&r, func(_ context.Context, job *troupe.Job[secretArgs]) error {
		if ran++; job.Args.Card != secretCard {
			t.Errorf("args are %v", job.Args)
		}
		return nil
	})
	entry := troupe.Periodic{Name: "n", Cron: "* * * * *", Args: secretArgs{Card: secretCard}}
	cfg := actors.Config{Registry: &r, Encryption: encryption(1), Periodic: []troupe.Periodic{entry}, PeriodicTag: "t"}
	testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
		time.Sleep(10*time.Minute + 2*time.Second) // in a bubble
		if text := everything(t, k.Redis); strings.Contains(text, secretCard) || !strings.Contains(text, "troupe.enc.1:1:") {
			t.Errorf("Redis has\n%s", text)
		}
	})
	harness.Equal(t, "runs", ran, 10)
	for want, change := range map[string]func(c *actors.Config){
		"its class has Encrypt, expected keys in Encryption":          func(c *actors.Config) { c.Encryption = troupe.Encryption{} },
		"Args: got a type with Encrypt, want one without beside Date": func(c *actors.Config) { c.Periodic[0].DateArg = true },
		"config: Encryption.Keys[1] has 3 bytes, expected 32":         func(c *actors.Config) { c.Encryption.Keys = map[int][]byte{1: []byte("abc")} },
	} {
		bad := cfg
		bad.Periodic, bad.Redis = []troupe.Periodic{entry}, testkit.NewMemory(t).Client
		change(&bad)
		_, err := actors.New(bad)
		harness.ErrorHas(t, "new", err, want)
	}
}

// An iterable job has its arguments in clear in each run, and Redis never has.
func TestASealedIterableJob(t *testing.T) {
	var r troupe.Registry
	var seen atomic.Int64
	check := func(job *troupe.Job[secretArgs]) {
		if seen.Add(1); job.Args.Card != secretCard {
			t.Errorf("args are %v", job.Args)
		}
	}
	troupe.HandleIterable(&r,
		func(_ context.Context, job *troupe.Job[secretArgs], from *int, yield func(int, string) bool) error {
			check(job)
			return troupe.YieldSlice([]string{"a", "b", "c"}, from, yield)
		},
		func(_ context.Context, job *troupe.Job[secretArgs], item string) error {
			check(job)
			if item == "b" && job.Attempt == 1 {
				return troupe.RetryIn(time.Millisecond, errors.New("once more"))
			}
			return nil
		})
	k := testkit.Start(t, actors.Config{Redis: testkit.Redis(t), Registry: &r, Encryption: encryption(1), PollInterval: 50 * time.Millisecond})
	_, err := k.Client.Push(t.Context(), secretArgs{Card: secretCard})
	harness.OK(t, err)
	k.Await("it is to be retried, or done", func() bool { return seen.Load() >= 3 })
	if text := everything(t, k.Redis); strings.Contains(text, secretCard) {
		t.Errorf("Redis has\n%s", text)
	}
	k.Await("it is done", func() bool { return seen.Load() == 6 && k.Settled() }) // two lists; a, b, b, c
}
