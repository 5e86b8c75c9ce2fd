package jobtests

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/testkit/script"
)

// bank is a Gateway that answers as a test says.
type bank struct {
	answer func(n int) error // of the n-th call, from 1; nil: yes

	mu    sync.Mutex
	calls int
}

func (b *bank) Charge(context.Context, string, int64, int64, string) error {
	b.mu.Lock()
	b.calls++
	n := b.calls
	b.mu.Unlock()
	if b.answer == nil {
		return nil
	}
	return b.answer(n)
}

func TestAChargeThatAlwaysFailsDies(t *testing.T) {
	b := &Billing{Gateway: &bank{answer: func(int) error { return errors.New("the bank is away") }}}
	testkit.Virtual(t, config(b), func(t *testing.T, kit *testkit.Kit) {
		b.Jobs = kit.Client
		kit.Push(ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"})
		kit.Skip(time.Hour) // five retries
		charge := testkit.RequireDead[ChargeCard](t, kit.Redis)
		if charge.Args.AccountID != 42 || kit.Stats().Failed != 6 {
			t.Errorf("dead: %+v after %d tries", charge, kit.Stats().Failed)
		}
	}, testkit.Strict())
}

func TestCheckoutPushesTheCharge(t *testing.T) {
	q := testkit.Fake(t)
	b := &Billing{Jobs: q.Client}
	if err := b.Checkout(t.Context(), 42, 1999); err != nil {
		t.Fatal(err)
	}
	job := testkit.RequirePushed(t, q, func(c ChargeCard) bool { return c.AccountID == 42 })
	if job.Queue != "critical" || job.Args.Cents != 1999 {
		t.Errorf("pushed %+v to %s", job.Args, job.Queue)
	}
	testkit.RequireNotPushed[SendReceipt](t, q)
}

func TestADeclinedCardIsNotTriedAgain(t *testing.T) {
	b := &Billing{Gateway: &bank{answer: func(int) error { return ErrDeclined }}}
	err := testkit.Perform(t, t.Context(), b.Charge, ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"})
	var outcome *troupe.OutcomeError
	if !errors.As(err, &outcome) || !outcome.Discard {
		t.Errorf("error %v, want a discard", err)
	}
}

func TestArgumentsFromRuby(t *testing.T) {
	b := &Billing{Gateway: &bank{}, Jobs: testkit.Fake(t).Client}
	err := testkit.PerformClass(t, t.Context(), b.Registry(), "Billing::ChargeCard", []any{42, 1999, "EUR"},
		client.Queue("critical"), client.Set("retry_count", 1)) // its third run
	if err != nil {
		t.Error(err)
	}
}

func TestAnOrderFromCheckoutToReceipt(t *testing.T) {
	q := testkit.Fake(t)
	b := &Billing{Gateway: &bank{}, Jobs: q.Client}
	if err := b.Checkout(t.Context(), 42, 1999); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Drain(t.Context(), b.Registry()); err != nil {
		t.Fatal(err)
	}
	testkit.RequirePushedMany(t, q, ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"}, SendReceipt{AccountID: 42, Cents: 1999})
}

// A daemon in virtual time: the retry comes after about 20 s, the receipt a
// minute later, and the test takes milliseconds.
func TestAFailedChargeIsRetried(t *testing.T) {
	b := &Billing{Gateway: &bank{answer: func(n int) error {
		if n == 1 {
			return errors.New("the bank is away")
		}
		return nil
	}}}
	testkit.Virtual(t, config(b), func(t *testing.T, kit *testkit.Kit) {
		b.Jobs = kit.Client
		if err := b.Checkout(t.Context(), 42, 1999); err != nil {
			t.Fatal(err)
		}
		charge := testkit.RequireRetried[ChargeCard](t, kit.Redis)
		if charge.Args.AccountID != 42 || charge.At.Before(time.Now().Add(10*time.Second)) {
			t.Errorf("retried: %+v", charge)
		}
		kit.Expect(testkit.Events[event.JobDone]().Of("ReceiptMail").Within(time.Hour), nil)
	}, testkit.Strict())
}

// config is that of the daemon.
func config(b *Billing) actors.Config {
	return actors.Config{
		Registry: b.Registry(),
		Capsules: []actors.Capsule{{Concurrency: 2, Queues: actors.Strict{"critical", "default"}}},
	}
}

// A handler that panics: the job is retried, its processor restarted, and no other
// is harmed. Strict would fail the test if the restart were not expected.
func TestAPanickingChargeHarmsNobody(t *testing.T) {
	b := &Billing{Gateway: &bank{answer: func(n int) error {
		if n == 1 {
			panic("nil account")
		}
		return nil
	}}}
	testkit.Virtual(t, config(b), func(t *testing.T, kit *testkit.Kit) {
		b.Jobs = kit.Client
		kit.Expect(testkit.Restarts("launcher/default/processor-*").Times(1), func() {
			kit.Push(ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"})
		})
		kit.Expect(testkit.Events[event.JobDone]().Of("Billing::ChargeCard").Within(time.Hour), nil)
	}, testkit.Strict())
}

// What becomes of the jobs that still run at the end of a deployment's patience.
func TestDeploymentRequeuesWhatIsTooSlow(t *testing.T) {
	jobs := script.New(t)
	cfg := actors.Config{Registry: jobs.Registry(), Timeout: 25 * time.Second}
	testkit.Virtual(t, cfg, func(t *testing.T, kit *testkit.Kit) {
		quick, slow := kit.Push(script.Slow(20*time.Second)), kit.Push(script.Hang())
		kit.Await("both run", func() bool { return jobs.Running() == 2 })

		report := kit.Stop()
		if len(report.Finished) != 1 || report.Finished[0].JID != quick {
			t.Errorf("finished: %v", report.Finished)
		}
		if len(report.Requeued) != 1 || report.Requeued[0].JID != slow {
			t.Errorf("requeued: %v", report.Requeued)
		}
	}, testkit.Strict())
}

// A processor that does not take messages: the job waits, and runs when it does
// again.
func TestAProcessorThatHangs(t *testing.T) {
	const processor = "launcher/default/processor-0"
	jobs := script.New(t)
	cfg := actors.Config{Registry: jobs.Registry(), Capsules: []actors.Capsule{{Concurrency: 1}}}
	testkit.Virtual(t, cfg, func(t *testing.T, kit *testkit.Kit) {
		kit.Hold(processor)
		jid := kit.Push(script.OK())
		kit.Await("a message waits", func() bool {
			n := kit.Tree().Find(processor)
			return n.Depth > 0 && jobs.Runs()[jid] == 0
		})
		kit.Release(processor)
		kit.Await("the job", func() bool { return jobs.Ended(jid) })
	}, testkit.Strict())
}

// Each command of the daemon may be cut or refused: no charge is lost, and none is
// made twice.
func TestNoChargeIsLostOnABadNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := testkit.NewMemory(t)
		b := &Billing{Gateway: &bank{}, Jobs: client.New(redis.Client)}
		var jids []string
		for account := range int64(50) {
			jid, err := b.Jobs.Push(t.Context(), ChargeCard{AccountID: account, Cents: 990, Currency: "EUR"})
			if err != nil {
				t.Fatal(err)
			}
			jids = append(jids, jid)
		}
		proxy := chaos.NewProxy(t, redis.Options())
		proxy.Add(chaos.Fault{Command: "evalsha", Skip: 3, Times: 1, Do: chaos.Effect{Cut: true, Applied: true}})
		proxy.AtRandom(1, 0.1, chaos.Effect{Cut: true}, chaos.Effect{Cut: true, Applied: true}, chaos.Effect{Refuse: "LOADING Redis is loading the dataset in memory"})
		rec := chaos.NewRecorder(redis.Client, "charges")
		cfg := config(b)
		cfg.Redis, cfg.Middleware = proxy.Client(), []troupe.Middleware{rec.Middleware}
		kit := testkit.Start(t, cfg)
		kit.Await("all charged", func() bool { return len(rec.Done(t)) == len(jids) })
		proxy.AtRandom(0, 0)
		kit.Await("all settled", kit.Settled)
		chaos.RequireNothingLost(t, chaos.TakeInventory(t, redis.Client), jids, rec.Done(t), nil)
		chaos.RequireAtMostRuns(t, rec.Runs(t), 1)
	})
}
