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
	"github.com/troupehq/troupe/fetch"
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
	if !errors.As(err, &outcome) || outcome.Action != troupe.ActionDiscard {
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
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		gateway := &bank{answer: func(n int) error {
			if n == 1 {
				return errors.New("the bank is away")
			}
			return nil
		}}
		b := &Billing{Gateway: gateway, Jobs: client.New(m.Client)}
		kit := testkit.Start(t, actors.Config{
			Redis: m.Client, Registry: b.Registry(),
			Capsules: []actors.Capsule{{Concurrency: 2, Queues: fetch.Strict{"critical", "default"}}},
		}, testkit.Strict())

		receipt := testkit.Events[actors.JobDone]().Of("ReceiptMail").Times(1).Within(time.Hour)
		kit.Expect(receipt, func() {
			if err := b.Checkout(t.Context(), 42, 1999); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// A handler that panics: the job is retried, its processor restarted, nobody
// else is harmed. Strict would fail the test if the restart were not expected.
func TestAPanickingChargeHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		gateway := &bank{answer: func(n int) error {
			if n == 1 {
				panic("nil account")
			}
			return nil
		}}
		b := &Billing{Gateway: gateway, Jobs: client.New(m.Client)}
		kit := testkit.Start(t, actors.Config{
			Redis: m.Client, Registry: b.Registry(),
			Capsules: []actors.Capsule{{Concurrency: 2, Queues: fetch.Strict{"critical", "default"}}},
		}, testkit.Strict())

		kit.Expect(testkit.Restarts("launcher/default/processor-*").Times(1), func() {
			kit.Push(ChargeCard{AccountID: 42, Cents: 1999, Currency: "EUR"})
		})
		kit.Expect(testkit.Events[actors.JobDone]().Of("Billing::ChargeCard").Within(time.Hour), nil)
	})
}

// What becomes of the jobs that are still running when a deployment's patience ends.
func TestDeploymentRequeuesWhatIsTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := script.New(t)
		kit := testkit.Start(t, actors.Config{Registry: jobs.Registry(), Timeout: 25 * time.Second}, testkit.Strict())
		quick, slow := kit.Push(script.Slow(20*time.Second)), kit.Push(script.Hang())
		kit.Await("both run", func() bool { return jobs.Running() == 2 })

		report := kit.Stop()
		if len(report.Finished) != 1 || report.Finished[0].JID != quick {
			t.Errorf("finished: %v", report.Finished)
		}
		if len(report.Requeued) != 1 || report.Requeued[0].JID != slow {
			t.Errorf("requeued: %v", report.Requeued)
		}
	})
}

// A processor that does not hear: the job waits, and runs when it hears again.
func TestAProcessorThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processor = "launcher/default/processor-0"
		jobs := script.New(t)
		kit := testkit.Start(t, actors.Config{
			Registry: jobs.Registry(), Capsules: []actors.Capsule{{Concurrency: 1}},
		}, testkit.Strict())

		kit.Hold(processor)
		jid := kit.Push(script.OK())
		kit.Await("its doorbell waits", func() bool {
			tree := kit.Tree()
			n, _ := tree.Find(processor)
			return n.Depth > 0 && !jobs.Started(jid)
		})
		kit.Release(processor)
		kit.Await("the job", func() bool { return jobs.Ended(jid) })
	})
}

func TestNoChargeIsLostOnABadNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		jobs := client.New(mem.Client)
		var jids []string
		for account := range int64(50) {
			jid, err := jobs.Push(t.Context(), ChargeCard{AccountID: account, Cents: 990, Currency: "EUR"})
			if err != nil {
				t.Fatal(err)
			}
			jids = append(jids, jid)
		}
		faults := chaos.NewProxy(t, mem.Options())
		faults.Add(chaos.Fault{Command: "evalsha", Skip: 3, Times: 1, Do: chaos.CutAfter})
		faults.AtRandom(1, 0.1, chaos.CutBefore, chaos.CutAfter, chaos.Refuse("LOADING Redis is loading the dataset in memory"))
		rec := chaos.NewRecorder(mem.Client, "charges")
		b := &Billing{Gateway: &bank{}, Jobs: jobs}
		k := testkit.Start(t, actors.Config{
			Redis: faults.Client(), Registry: b.Registry(), Middleware: []troupe.Middleware{rec.Middleware},
			Capsules: []actors.Capsule{{Queues: fetch.Strict{"critical", "default"}}},
		})
		k.Await("all charged", func() bool { return len(rec.Done(t)) == len(jids) })
		faults.AtRandom(0, 0)
		k.Await("all settled", k.Settled)
		chaos.RequireNothingLost(t, chaos.TakeInventory(t, mem.Client), jids, rec.Done(t), nil)
		chaos.RequireAtMostRuns(t, rec.Runs(t), 1)
	})
}
