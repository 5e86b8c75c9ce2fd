package job_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

var (
	errFirst  = errors.New("first")
	errSecond = errors.New("second")
)

func returns(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// obeys ends when it is told to.
func obeys(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestGoroutinesOfAJob(t *testing.T) {
	for name, c := range map[string]struct {
		goroutines []func(context.Context) error
		handler    error
		want       string
		fatal      bool
	}{
		"none":                  {handler: errFirst, want: "first"},
		"all well":              {goroutines: []func(context.Context) error{returns(nil), returns(nil)}},
		"one fails":             {goroutines: []func(context.Context) error{obeys, returns(errFirst), obeys}, want: "first"},
		"handler fails":         {goroutines: []func(context.Context) error{obeys, obeys}, handler: errFirst, want: "first"},
		"both fail":             {goroutines: []func(context.Context) error{returns(errSecond)}, handler: errFirst, want: "first\nsecond"},
		"one panics":            {goroutines: []func(context.Context) error{obeys, func(context.Context) error { panic("boom") }}, want: "panic: boom", fatal: true},
		"panic after a failure": {goroutines: []func(context.Context) error{func(ctx context.Context) error { <-ctx.Done(); panic("boom") }}, handler: errFirst, want: "panic: boom", fatal: true},
		"one calls Goexit":      {goroutines: []func(context.Context) error{func(context.Context) error { runtime.Goexit(); return nil }}, want: "handler called runtime.Goexit", fatal: true},
		"one panics with nil":   {goroutines: []func(context.Context) error{func(context.Context) error { panic(nil) }}, want: "panic: panic called with nil argument", fatal: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, g := job.WithGroup(t.Context())
				for _, f := range c.goroutines {
					troupe.Go(ctx, f)
				}
				err, fatal := g.Wait(c.handler)
				text := ""
				if err != nil {
					text = err.Error()
				}
				if lines := strings.Split(text, "\n"); len(lines) == 2 && lines[0] > lines[1] { // who was first is chance
					text = lines[1] + "\n" + lines[0]
				}
				if text != c.want || fatal != c.fatal {
					t.Errorf("%q, fatal %v; want %q, %v", text, fatal, c.want, c.fatal)
				}
				if failed := context.Cause(ctx) != nil; failed != (len(c.goroutines) > 0 && c.want != "" || c.handler != nil) {
					t.Errorf("context ended: %v", context.Cause(ctx))
				}
			})
		})
	}
}

// The job has not ended before its goroutines, and starts none after.
func TestWaitForGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, g := job.WithGroup(t.Context())
		began := time.Now()
		troupe.Go(ctx, func(ctx context.Context) error {
			time.Sleep(time.Second)
			troupe.Go(ctx, func(ctx context.Context) error { // one starts another
				time.Sleep(time.Second)
				return ctx.Err()
			})
			return nil
		})
		if err, _ := g.Wait(nil); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		troupe.Go(ctx, func(context.Context) error { t.Error("began after the end"); return nil })
		synctest.Wait()
	})
}

// Who asks for an outcome is heard.
func TestOutcomeOfAGoroutine(t *testing.T) {
	ctx, g := job.WithGroup(t.Context())
	troupe.Go(ctx, returns(troupe.Discard(errFirst)))
	err, _ := g.Wait(nil)
	if out, ok := errors.AsType[*troupe.OutcomeError](err); !ok || !out.Discard {
		t.Errorf("%v", err)
	}
}

func TestGoOutsideOfAJob(t *testing.T) {
	ran := make(chan struct{})
	troupe.Go(t.Context(), func(context.Context) error { close(ran); return errFirst })
	<-ran
}
