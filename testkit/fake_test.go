package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

type charge struct {
	Account int64  `arg:"0"`
	Cents   int64  `arg:"1"`
	Note    string `arg:"2,optional"`
}

func (charge) Class() string { return "Billing::Charge" }

type receipt struct {
	Account int64 `arg:"0"`
}

func (*receipt) Class() string { return "ReceiptMail" }

func TestFakeKeepsWhatWouldBeSent(t *testing.T) {
	both(t, func(t *testing.T) {
		stamped := client.Middleware(func(next client.PushFunc) client.PushFunc {
			return func(ctx context.Context, p *troupe.Payload) error {
				if p.Class() == "Unwanted" {
					return client.ErrStopped
				}
				p.SetString("tenant", "acme")
				return next(ctx, p)
			}
		})
		q := testkit.Fake(t, client.WithMiddleware(stamped), client.WithDefaults(client.Retry(3)))
		ctx := t.Context()
		jid := harness.Must(q.Client.Push(ctx, charge{1, 100, ""}, client.Queue("critical")))(t)
		due := time.Now().Add(time.Hour).Truncate(time.Second)
		harness.Must(q.Client.Push(ctx, &receipt{1}, client.At(due)))(t)
		if got, err := q.Client.PushClass(ctx, "Unwanted", nil); got != "" || !errors.Is(err, client.ErrStopped) {
			t.Errorf("a stopped push: %q, %v", got, err)
		}
		if _, err := q.Client.PushClass(ctx, "Bad", nil, client.Retry(-1)); err == nil {
			t.Error("a bad option was accepted")
		}
		bulk := func() iter.Seq[charge] { return slices.Values([]charge{{2, 1, ""}, {3, 1, ""}}) }
		harness.Must(client.PushBulk(ctx, q.Client, bulk()))(t)
		harness.Must(client.PushBulk(ctx, q.Client, bulk(), client.In(time.Minute)))(t)

		testkit.RequirePushedMany(t, q, charge{1, 100, ""}, &receipt{1},
			charge{2, 1, ""}, charge{3, 1, ""}, charge{2, 1, ""}, charge{3, 1, ""})
		job := testkit.RequirePushed(t, q, func(c charge) bool { return c.Account == 1 })
		tenant, _ := job.Payload.String("tenant")
		if job.JID != jid || job.Queue != "critical" || job.Args.Cents != 100 || tenant != "acme" || !job.At.IsZero() {
			t.Errorf("pushed %+v, tenant %q", job, tenant)
		}
		if retry, _ := job.Payload.Int("retry"); retry != 3 {
			t.Errorf("retry %d", retry)
		}
		mail := testkit.RequirePushed[*receipt](t, q)
		if !mail.At.Equal(due) || mail.Args.Account != 1 {
			t.Errorf("scheduled for %s, want %s", mail.At, due)
		}
		testkit.RequireNotPushed(t, q, func(c charge) bool { return c.Account == 9 })
		harness.Equal(t, "jobs", len(q.Jobs()), 6)
		q.Clear()
		testkit.RequirePushedMany(t, q)
	})
}

func TestDrainQueueRunsWhatIsInOneQueueNow(t *testing.T) {
	q := testkit.Fake(t)
	var r troupe.Registry
	var ran []string
	troupe.HandleClass(&r, "Note", troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		ran = append(ran, p.Queue()+" "+string(p.Args()))
		if string(p.Args()) == "[1]" {
			_, err := q.Client.PushClass(ctx, "Note", []any{2}, client.Queue("mail"))
			return err
		}
		return nil
	}))
	for _, push := range []struct {
		n    int
		opts []client.Option
	}{
		{0, nil}, {1, []client.Option{client.Queue("mail")}}, {3, []client.Option{client.Queue("mail"), client.In(time.Hour)}},
	} {
		harness.Must(q.Client.PushClass(t.Context(), "Note", []any{push.n}, push.opts...))(t)
	}
	n, err := q.DrainQueue(t.Context(), "mail", &r)
	if want := []string{"mail [1]", "mail [2]"}; n != 2 || err != nil || !slices.Equal(ran, want) || len(q.Jobs()) != 2 {
		t.Errorf("%d, %v: ran %q, want %q; %d wait", n, err, ran, want, len(q.Jobs()))
	}
}

func TestDrainRunsWhatJobsPush(t *testing.T) {
	q := testkit.Fake(t)
	var r troupe.Registry
	var seen []string
	note := func(next troupe.Handler) troupe.Handler {
		return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			info, _ := troupe.JobInfoFrom(ctx)
			seen = append(seen, fmt.Sprintf("%s %s %d %t", info.Class, info.Queue, info.Attempt, info.JID == p.JID()))
			return next.Perform(ctx, p)
		})
	}
	troupe.Handle(&r, func(ctx context.Context, j *troupe.Job[charge]) error {
		_, err := q.Client.Push(ctx, &receipt{j.Args.Account}, client.In(time.Hour), client.Queue("mail"))
		return err
	}, troupe.Options{Middleware: []troupe.Middleware{note}})
	troupe.Handle(&r, func(_ context.Context, j *troupe.Job[*receipt]) error {
		if j.Args.Account == 2 {
			return errBoom
		}
		return nil
	})
	for n := range int64(3) {
		harness.Must(q.Client.Push(t.Context(), charge{n, 1, ""}))(t)
	}
	if ran, err := q.DrainOne(t.Context(), &r, note); !ran || err != nil || len(q.Jobs()) != 3 {
		t.Fatalf("drain one: %t, %v, %d left", ran, err, len(q.Jobs()))
	}
	n, err := q.Drain(t.Context(), &r, note)
	if n != 5 || !errors.Is(err, errBoom) || len(q.Jobs()) != 0 {
		t.Errorf("drained %d, %v, %d left", n, err, len(q.Jobs()))
	}
	want := slices.Repeat([]string{"Billing::Charge default 1 true"}, 6) // outer and the class's own
	want = append(want, slices.Repeat([]string{"ReceiptMail mail 1 true"}, 3)...)
	slices.Sort(seen)
	if !slices.Equal(seen, want) {
		t.Errorf("seen  %q\nwant %q", seen, want)
	}
	if ran, err := q.DrainOne(t.Context(), &r); ran || err != nil {
		t.Errorf("drained nothing: %t, %v", ran, err)
	}
	harness.Equal(t, "pushed", len(q.All()), 6)
}

func TestInlineRunsAtOnce(t *testing.T) {
	var r troupe.Registry
	var order []string
	var q *testkit.Pushes
	troupe.Handle(&r, func(ctx context.Context, j *troupe.Job[charge]) error {
		order = append(order, "charge in")
		_, err := q.Client.Push(ctx, &receipt{j.Args.Account}, client.In(time.Hour), client.Queue("mail"))
		order = append(order, "charge out")
		return err
	})
	troupe.Handle(&r, func(ctx context.Context, j *troupe.Job[*receipt]) error {
		info, _ := troupe.JobInfoFrom(ctx)
		order = append(order, "receipt "+j.Queue)
		if info.JID != j.JID || info.Class != "ReceiptMail" {
			t.Errorf("job info %+v", info)
		}
		if j.Args.Account == 2 {
			return errBoom
		}
		if j.Args.Account == 3 {
			panic(errBoom)
		}
		return nil
	})
	q = testkit.Inline(t, &r, nil)
	if jid, err := q.Client.Push(t.Context(), charge{1, 1, ""}); jid == "" || err != nil {
		t.Fatalf("push: %q, %v", jid, err)
	}
	harness.EqualList(t, "order", order, []string{"charge in", "receipt mail", "charge out"})
	_, err := q.Client.Push(t.Context(), charge{2, 1, ""})
	if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "run inline: ") || strings.Contains(err.Error(), "set queues") {
		t.Errorf("error %v, want the handler's, without Redis's sets", err)
	}
	_, err = q.Client.Push(t.Context(), charge{3, 1, ""})
	if p, ok := errors.AsType[*troupe.PanicError](err); !ok || p.Error() != "panic: boom" {
		t.Errorf("error %v, want the panic", err)
	}
	_, err = q.Client.PushClass(t.Context(), "Nobody", nil)
	if _, ok := errors.AsType[*troupe.UnknownClassError](err); !ok {
		t.Errorf("error %v, want an unknown class", err)
	}
	testkit.RequirePushed(t, q, func(c charge) bool { return c.Account == 1 })
	harness.Equal(t, "wait", len(q.Jobs()), 0)
}

func TestRecordLetsPushesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, one(s, nil), testkit.Strict())
		q := testkit.Record(t, k.Redis)
		jid := k.Push(script.OK())
		k.Await("it ran", func() bool { return s.Ended(jid) })
		if job := testkit.RequirePushed[script.Step](t, q); job.JID != jid {
			t.Errorf("recorded %s, pushed %s", job.JID, jid)
		}
	})
}

func TestPushAssertionsSayWhatWasPushed(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(tb testing.TB, q *testkit.Pushes)
		want []string
	}{
		"none fits": {
			func(tb testing.TB, q *testkit.Pushes) {
				testkit.RequirePushed(tb, q, func(c charge) bool { return c.Cents == 5 })
			},
			[]string{"expected one push of Billing::Charge that fits, got 0", "args [1,100] queue critical", "ReceiptMail: 1"},
		},
		"two fit": {
			func(tb testing.TB, q *testkit.Pushes) { testkit.RequirePushed[charge](tb, q) },
			[]string{"got 2", "args [1,100]", `args [2,200,"x"]`},
		},
		"one too many": {
			func(tb testing.TB, q *testkit.Pushes) { testkit.RequireNotPushed[*receipt](tb, q) },
			[]string{"expected no push of ReceiptMail that fits, got 1", "at 2"},
		},
		"another list": {
			func(tb testing.TB, q *testkit.Pushes) {
				testkit.RequirePushedMany(tb, q, charge{1, 100, ""}, &receipt{1})
			},
			[]string{"(-want +got)", `Billing::Charge [2,200,"x"]`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Fails(t, func(tb testing.TB) {
				q := testkit.Fake(tb)
				for _, push := range []func() (string, error){
					func() (string, error) {
						return q.Client.Push(t.Context(), charge{1, 100, ""}, client.Queue("critical"))
					},
					func() (string, error) { return q.Client.Push(t.Context(), charge{2, 200, "x"}) },
					func() (string, error) { return q.Client.Push(t.Context(), &receipt{1}, client.In(time.Hour)) },
				} {
					harness.Must(push())(tb)
				}
				c.f(tb, q)
			}, c.want...)
		})
	}
}

func TestPerformGoesThroughThePayload(t *testing.T) {
	ctx := t.Context()
	err := testkit.Perform(t, ctx, func(ctx context.Context, j *troupe.Job[charge]) error {
		info, ok := troupe.JobInfoFrom(ctx)
		if !ok || info.Attempt != 3 || info.Queue != "critical" || info.Capsule != "default" || j.Attempt != 3 || j.Queue != "critical" {
			t.Errorf("info %+v, job %+v", info, j)
		}
		if j.Args != (charge{1, 2, "n"}) || j.JID == "" {
			t.Errorf("job %+v", j)
		}
		return errBoom
	}, charge{1, 2, "n"}, client.Queue("critical"), client.Set("retry_count", 1))
	if !errors.Is(err, errBoom) {
		t.Errorf("error %v", err)
	}

	// as a stop would
	stopped, cancel := context.WithCancelCause(testkit.Context(t, troupe.JobInfo{Attempt: 5, Capsule: "ledger"}))
	cancel(troupe.ErrShutdown)
	err = testkit.Perform(t, stopped, func(ctx context.Context, j *troupe.Job[charge]) error {
		if info, _ := troupe.JobInfoFrom(ctx); info.Attempt != 5 || info.Capsule != "ledger" || info.JID != j.JID {
			t.Errorf("info %+v", info)
		}
		return context.Cause(ctx)
	}, charge{})
	if !errors.Is(err, troupe.ErrShutdown) {
		t.Errorf("error %v", err)
	}

	err = testkit.Perform(t, ctx, func(context.Context, *troupe.Job[charge]) error { panic("ouch") }, charge{})
	if p, ok := errors.AsType[*troupe.PanicError](err); !ok || p.Value != "ouch" {
		t.Errorf("error %v", err)
	}
}

// A late job is not run: it is an error, or is dropped.
func TestLateJobsInline(t *testing.T) {
	var r troupe.Registry
	ran := false
	troupe.Handle(&r, func(context.Context, *troupe.Job[charge]) error { ran = true; return nil })
	q := testkit.Inline(t, &r, nil)
	late := client.ExpireAt(time.Now().Add(-time.Second))
	if _, err := q.Client.Push(t.Context(), charge{1, 1, ""}, late); !errors.As(err, new(*troupe.ExpiredError)) {
		t.Errorf("a late job: %v", err)
	}
	if _, err := q.Client.Push(t.Context(), charge{1, 1, ""}, late, client.DropExpired()); err != nil || ran {
		t.Errorf("a late job that is dropped: %v, has run: %v", err, ran)
	}
}

func TestPerformClassUsesTheRegistry(t *testing.T) {
	var r troupe.Registry
	timed := false
	troupe.Handle(&r, func(ctx context.Context, j *troupe.Job[charge]) error {
		_, timed = ctx.Deadline()
		return nil
	}, troupe.Options{Timeout: time.Minute})
	if err := testkit.PerformClass(t, t.Context(), &r, "Billing::Charge", []any{1, 2}); err != nil || !timed {
		t.Errorf("error %v, deadline %t", err, timed)
	}
	err := testkit.PerformClass(t, t.Context(), &r, "Billing::Charge", []any{"one", 2})
	if a, ok := errors.AsType[*troupe.ArgsError](err); !ok || a.Index != 0 {
		t.Errorf("error %v, want one of the args", err)
	}
}
