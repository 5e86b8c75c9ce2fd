package troupe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/test/harness"
)

type mailing struct {
	List string `arg:"0"`
}

func (mailing) Class() string { return "Mailing" }

// keeperDouble keeps an iteration in memory and does what its test asks.
type keeperDouble struct {
	it      Iteration
	loadErr error

	saves       []time.Time
	saveErr     func(n int) error // of save number n
	cancelled   time.Time
	interrupted func() bool

	ends     int
	finished bool
}

func (k *keeperDouble) Load(context.Context) (Iteration, error) { return k.it, k.loadErr }

func (k *keeperDouble) Save(_ context.Context, it Iteration) (time.Time, error) {
	k.saves = append(k.saves, time.Now())
	if k.saveErr != nil {
		if err := k.saveErr(len(k.saves)); err != nil {
			return time.Time{}, err
		}
	}
	k.it = it
	return k.cancelled, nil
}

func (k *keeperDouble) Moved(Iteration) bool { return false }
func (k *keeperDouble) Drop()                {}
func (k *keeperDouble) Interrupted() bool    { return k.interrupted != nil && k.interrupted() }

func (k *keeperDouble) End(it Iteration, finished bool) {
	k.it, k.finished = it, finished
	k.ends++
}

// mails is an iterable job over letters whose items can be scripted.
type mails struct {
	letters []string
	each    func(item string) error
	ran     []string
	hooks   []string
	hookErr map[string]error
}

func (m *mails) items(_ context.Context, _ *Job[mailing], cursor *int, yield func(int, string) bool) error {
	return YieldSlice(m.letters, cursor, yield)
}

func (m *mails) item(_ context.Context, _ *Job[mailing], item string) error {
	m.ran = append(m.ran, item)
	if m.each != nil {
		return m.each(item)
	}
	return nil
}

func (m *mails) hook(name string) iterationHook[mailing] {
	return func(_ context.Context, job *Job[mailing], it Iteration) error {
		if job.Args.List != "news" || it.Executions < 1 {
			return fmt.Errorf("hook %s got %+v, %+v", name, job, it)
		}
		m.hooks = append(m.hooks, name)
		return m.hookErr[name]
	}
}

func (m *mails) registry() *Registry {
	var r Registry
	HandleIterable(&r, m.items, m.item, IterableOptions[mailing]{
		OnStart: m.hook("start"), OnResume: m.hook("resume"), OnStop: m.hook("stop"),
		OnCancel: m.hook("cancel"), OnComplete: m.hook("complete"),
	})
	return &r
}

// run performs a job of r with the keeper k, nil for none.
func run(t *testing.T, r *Registry, k keeper) error {
	t.Helper()
	ctx := t.Context()
	if k != nil {
		ctx = context.WithValue(ctx, jobctx.Keeper{}, k)
	}
	return runIn(ctx, t, r)
}

func runIn(ctx context.Context, t *testing.T, r *Registry) error {
	t.Helper()
	e, ok := r.Lookup("Mailing")
	if !ok || !e.Iterable {
		t.Fatalf("entry %+v, %v", e, ok)
	}
	return e.Handler.Perform(ctx, mustParse(t, `{"class":"Mailing","jid":"j1","args":["news"]}`))
}

func letters(n int) (out []string) {
	for i := range n {
		out = append(out, string(rune('a'+i)))
	}
	return out
}

func (m *mails) want(t *testing.T, ran, hooks string) {
	t.Helper()
	if got := strings.Join(m.ran, ""); got != ran {
		t.Errorf("ran %q, want %q", got, ran)
	}
	harness.Equal(t, "hooks", strings.Join(m.hooks, " "), hooks)
}

func TestAnIterationWithoutAKeeperRunsAllItems(t *testing.T) {
	m := &mails{letters: letters(4)}
	harness.OK(t, run(t, m.registry(), nil))
	m.want(t, "abcd", "start stop complete")
}

func TestAnInterruptedIterationGoesOnWithTheItemOfItsCursor(t *testing.T) {
	m := &mails{letters: letters(5)}
	k := &keeperDouble{}
	k.interrupted = func() bool { return len(m.ran) == 2 }
	if err := run(t, m.registry(), k); !errors.Is(err, ErrInterrupted) {
		t.Fatalf("the run returned %v, want ErrInterrupted", err)
	}
	m.want(t, "ab", "start stop")
	if len(k.saves) != 1 || k.finished || k.ends != 1 || k.it.Executions != 1 || string(k.it.Cursor) != "2" {
		t.Errorf("%d saves, %d ends, finished %v, state %+v; want the cursor 2 saved", len(k.saves), k.ends, k.finished, k.it)
	}
	k.interrupted = nil
	harness.OK(t, run(t, m.registry(), k))
	m.want(t, "abcde", "start stop resume stop complete")
	if !k.finished || k.it.Executions != 2 {
		t.Errorf("finished %v, state %+v", k.finished, k.it)
	}
}

func TestWhatEndsARunEarlyKeepsItsPlace(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		each func()
		err  error
		want error
	}{
		"error":               {err: boom, want: boom},
		"discard":             {err: Discard(boom), want: boom},
		"its own interrupted": {err: fmt.Errorf("enough: %w", ErrInterrupted), want: ErrInterrupted},
		"panic":               {each: func() { panic("boom") }},
		"goexit":              {each: runtime.Goexit},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mails{letters: letters(4)}
			m.each = func(item string) error {
				if item != "c" || len(m.ran) > 3 {
					return nil
				}
				if c.each != nil {
					c.each()
				}
				return c.err
			}
			k := &keeperDouble{}
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				err = run(t, m.registry(), k)
			}()
			<-done
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("returned %v, want %v", err, c.want)
			}
			if k.ends != 1 || k.finished || string(k.it.Cursor) != "2" {
				t.Fatalf("%d ends, finished %v, state %+v; want the cursor of the item at hand", k.ends, k.finished, k.it)
			}
			hooks := "start"
			if errors.Is(c.want, ErrInterrupted) {
				hooks = "start stop"
			}
			m.want(t, "abc", hooks)
			harness.OK(t, run(t, m.registry(), k))
			m.want(t, "abccd", hooks+" resume stop complete")
		})
	}
}

func TestHooksOfACancelledIteration(t *testing.T) {
	at := time.Unix(1795224881, 0)
	m := &mails{letters: letters(3)}
	k := &keeperDouble{it: Iteration{Cancelled: at}}
	if err := run(t, m.registry(), k); err != nil || !k.finished {
		t.Fatalf("%v, finished %v", err, k.finished)
	}
	m.want(t, "", "start cancel stop complete") // the order of Sidekiq

	// seen with the save that an interruption makes: there will be no other run
	m = &mails{letters: letters(3)}
	k = &keeperDouble{cancelled: at, it: Iteration{Executions: 3, Cursor: json.RawMessage("1")}}
	k.interrupted = func() bool { return len(m.ran) == 1 }
	if err := run(t, m.registry(), k); err != nil || !k.finished || !k.it.Cancelled.Equal(at) {
		t.Fatalf("%v, finished %v, %+v", err, k.finished, k.it)
	}
	m.want(t, "b", "resume cancel stop complete")
}

func TestAHookThatFailsFailsTheRun(t *testing.T) {
	boom := errors.New("boom")
	for hook, want := range map[string]struct {
		ran, hooks string
		ends       int
	}{
		"start":    {"", "start", 0}, // nothing is saved: the next run starts again
		"stop":     {"abc", "start stop", 1},
		"complete": {"abc", "start stop complete", 1},
	} {
		m := &mails{letters: letters(3), hookErr: map[string]error{hook: boom}}
		k := &keeperDouble{}
		if err := run(t, m.registry(), k); !errors.Is(err, boom) || k.finished || k.ends != want.ends {
			t.Errorf("%s: returned %v, finished %v, %d ends", hook, err, k.finished, k.ends)
		}
		m.want(t, want.ran, want.hooks)
	}
	m := &mails{letters: letters(3), hookErr: map[string]error{"stop": boom}}
	k := &keeperDouble{interrupted: func() bool { return true }}
	if err := run(t, m.registry(), k); !errors.Is(err, boom) || errors.Is(err, ErrInterrupted) || string(k.it.Cursor) != "0" {
		t.Errorf("an interruption whose hook fails returned %v, state %+v", err, k.it)
	}
}

func TestTheCursorIsSavedAndACancellationSeenWithinFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mails{letters: letters(26)}
		k := &keeperDouble{it: Iteration{Executions: 1, Cursor: json.RawMessage("1"), Runtime: time.Minute}}
		m.each = func(item string) error {
			time.Sleep(900 * time.Millisecond)
			if item == "l" {
				k.cancelled = time.Now()
			}
			return nil
		}
		began := time.Now()
		harness.OK(t, run(t, m.registry(), k))
		last := began
		for _, at := range append(k.saves, time.Now()) {
			if gap := at.Sub(last); gap > 5*time.Second {
				t.Errorf("%s without a save", gap)
			}
			last = at
		}
		if n := len(k.saves); n != 3 { // every 4.5 s
			t.Errorf("%d saves in %s", n, time.Since(began))
		}
		if seen := time.Since(k.cancelled); seen > 5*time.Second || len(m.ran) == 25 {
			t.Errorf("the cancellation was seen after %s, %d items", seen, len(m.ran))
		}
		if want := time.Minute + time.Since(began); k.it.Runtime != want || k.it.Executions != 2 {
			t.Errorf("state %+v, want a run time of %s", k.it, want)
		}
	})
}

func TestAnIterationOutlivesAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mails{letters: letters(26)}
		m.each = func(string) error { time.Sleep(100 * time.Millisecond); return nil }
		k := &keeperDouble{interrupted: func() bool { return true }}
		k.saveErr = func(n int) error {
			if n <= 2 {
				return errors.New("away")
			}
			return nil
		}
		if err := run(t, m.registry(), k); !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		// it stays at work until its place is saved, and asks once a second
		if len(m.ran) != 20 || string(k.it.Cursor) != "20" || len(k.saves) != 3 {
			t.Errorf("ran %d items, %d saves, state %+v", len(m.ran), len(k.saves), k.it)
		}
	})
}

func TestACancelledContextEndsAnIterationBetweenItems(t *testing.T) {
	m := &mails{letters: letters(4)}
	k := &keeperDouble{}
	ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), jobctx.Keeper{}, k))
	defer cancel(nil)
	m.each = func(item string) error {
		if item == "b" {
			cancel(ErrJobTimeout)
		}
		return nil
	}
	if err := runIn(ctx, t, m.registry()); !errors.Is(err, ErrJobTimeout) || k.finished || string(k.it.Cursor) != "2" {
		t.Errorf("%v, finished %v, state %+v", err, k.finished, k.it)
	}
	m.want(t, "ab", "start")

	// items that obey the context without saying so have not come to an end
	k = &keeperDouble{}
	ctx, cancel = context.WithCancelCause(context.WithValue(t.Context(), jobctx.Keeper{}, k))
	defer cancel(nil)
	var r Registry
	HandleIterable(&r, func(ctx context.Context, _ *Job[mailing], _ *int, yield func(int, int) bool) error {
		for i := 0; ctx.Err() == nil; i++ {
			yield(i, i)
		}
		return nil
	}, func(_ context.Context, _ *Job[mailing], i int) error {
		if i == 1 {
			cancel(ErrJobTimeout)
		}
		return nil
	})
	if err := runIn(ctx, t, &r); !errors.Is(err, ErrJobTimeout) || k.finished {
		t.Errorf("%v, finished %v", err, k.finished)
	}
}
