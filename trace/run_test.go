package trace_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/trace"
)

// unreadable is an error whose methods panic.
type unreadable struct{}

func (unreadable) Error() string { panic("unreadable") }
func (unreadable) Is(error) bool { panic("unreadable") }
func (unreadable) As(any) bool   { panic("unreadable") }

// classed is an error with a class of its own.
type classed struct{ text string }

func (c classed) Error() string    { return c.text }
func (classed) ErrorClass() string { return "Shop::Declined" }

func TestHowARunEnds(t *testing.T) {
	boom := errors.New("boom")
	returns := func(err error) func() error { return func() error { return err } }
	for name, tt := range map[string]struct {
		handle  func() error
		cause   error // of the end of its context
		status  codes.Code
		class   string // error.type
		outcome string
		event   string // message of the exception
	}{
		"done":                   {handle: returns(nil)},
		"done after the stop":    {handle: returns(nil), cause: troupe.ErrShutdown},
		"failed":                 {handle: returns(fmt.Errorf("charge: %w", classed{"declined"})), status: codes.Error, class: "Shop::Declined", event: "charge: declined"},
		"retried later":          {handle: returns(troupe.RetryIn(5, boom)), status: codes.Error, class: "error", event: "boom"},
		"killed":                 {handle: returns(troupe.Kill(boom)), status: codes.Error, class: "error", event: "boom"},
		"discarded":              {handle: returns(troupe.Discard(boom)), outcome: "discarded", event: "boom"},
		"discarded, wrapped":     {handle: returns(fmt.Errorf("x: %w", troupe.Discard(nil))), outcome: "discarded", event: "x: job discarded"},
		"parked":                 {handle: returns(troupe.Park(5, boom)), outcome: "parked", event: "boom"},
		"interrupted":            {handle: returns(troupe.ErrInterrupted), outcome: "interrupted", event: troupe.ErrInterrupted.Error()},
		"stopped":                {handle: returns(context.Canceled), cause: troupe.ErrShutdown, outcome: "interrupted", event: "context canceled"},
		"fenced":                 {handle: returns(boom), cause: troupe.ErrFenced, outcome: "interrupted", event: "boom"},
		"out of time":            {handle: returns(troupe.ErrJobTimeout), cause: troupe.ErrJobTimeout, status: codes.Error, class: "error", event: troupe.ErrJobTimeout.Error()},
		"cancelled":              {handle: returns(troupe.ErrCancelled), cause: troupe.ErrCancelled, status: codes.Error, class: "error", event: troupe.ErrCancelled.Error()},
		"panicked":               {handle: func() error { panic(boom) }, status: codes.Error, class: "panic", event: "panic: boom"},
		"panicked with a park":   {handle: func() error { panic(troupe.Park(5, nil)) }, status: codes.Error, class: "panic", event: "panic: job parked for 5ns"},
		"panicked after the end": {handle: func() error { panic(boom) }, cause: troupe.ErrShutdown, status: codes.Error, class: "panic", event: "panic: boom"},
		"goexit":                 {handle: func() error { runtime.Goexit(); return nil }, status: codes.Error, class: "goexit", event: "handler called runtime.Goexit"},
		"unreadable":             {handle: returns(unreadable{}), status: codes.Error, class: "trace_test.unreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			r := record()
			var ended error
			h := trace.Middleware(r.config())(troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return tt.handle() }))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.cause != nil {
				cancel(tt.cause)
			}
			var thrown any
			finished := make(chan struct{})
			go func() {
				defer close(finished)
				defer func() { thrown = recover() }()
				ended = h.Perform(ctx, parsed(t, `{"class":"Order","queue":"orders","args":[],"jid":"j"}`))
			}()
			<-finished
			if tt.class != "panic" && tt.class != "goexit" {
				if got, want := fmt.Sprintf("%#v", ended), fmt.Sprintf("%#v", tt.handle()); got != want {
					t.Errorf("the middleware returned %s, want %s", got, want)
				}
			} else if (thrown != nil) != (tt.class == "panic") {
				t.Errorf("the middleware panicked with %v", thrown)
			}
			run := r.only(t, "process orders")
			got := attributes(run)
			if run.Status().Code != tt.status || got["error.type"] != tt.class || got["messaging.sidekiq.outcome"] != tt.outcome {
				t.Errorf("status %v, error.type %q, outcome %q", run.Status(), got["error.type"], got["messaging.sidekiq.outcome"])
			}
			if tt.status == codes.Error && run.Status().Description != tt.event {
				t.Errorf("the status says %q", run.Status().Description)
			}
			event := ""
			for _, e := range run.Events() {
				if e.Name == "exception" {
					of := asText(e.Attributes)
					event += of["exception.message"]
					if has := strings.Contains(of["exception.stacktrace"], "TestHowARunEnds"); has != (tt.class == "panic" || tt.class == "goexit") {
						t.Errorf("the stack is %q", of["exception.stacktrace"])
					}
				}
			}
			harness.Equal(t, "the exception is", event, tt.event)
		})
	}
}

// What the daemon makes of a job is the same with the middleware and without, down to the
// stack of a panic.
func TestTheMiddlewareChangesNoOutcome(t *testing.T) {
	stored := map[bool][]string{}
	for _, traced := range []bool{false, true} {
		var jobs troupe.Registry
		for class, perform := range map[string]troupe.HandlerFunc{
			"Panics":     func(context.Context, *troupe.Payload) error { panic("boom") },
			"Goexit":     func(context.Context, *troupe.Payload) error { runtime.Goexit(); return nil },
			"Fails":      func(context.Context, *troupe.Payload) error { return classed{"no"} },
			"Unreadable": func(context.Context, *troupe.Payload) error { return unreadable{} },
		} {
			troupe.HandleClass(&jobs, class, perform, troupe.Options{Backtrace: 1})
		}
		cfg := actors.Config{Registry: &jobs}
		if traced {
			cfg.Middleware = []troupe.Middleware{trace.Middleware(record().config())}
		}
		testkit.Virtual(t, cfg, func(t *testing.T, kit *testkit.Kit) {
			for _, class := range jobs.Classes() {
				kit.PushClass(class, nil)
			}
			kit.Await("four failures", func() bool { return kit.Redis.ZCard(t.Context(), "retry").Val() == 4 })
			for _, class := range jobs.Classes() {
				for _, member := range kit.Redis.ZRange(t.Context(), "retry", 0, -1).Val() {
					p := parsed(t, member)
					if p.Class() != class {
						continue
					}
					trail, _ := p.String("error_backtrace")
					name, _ := p.String("error_class")
					message, _ := p.String("error_message")
					stored[traced] = append(stored[traced], strings.Join([]string{class, name, message, trail}, " "))
				}
			}
			harness.Equal(t, "failures", kit.Stats().Failed, 4)
		})
	}
	if got, want := fmt.Sprintf("%q", stored[true]), fmt.Sprintf("%q", stored[false]); got != want || len(stored[true]) != 4 {
		t.Errorf("with the middleware\n%s\nwithout\n%s", got, want)
	}
}

// A run that is not sampled has no span that ends, and its handler runs all the same.
func TestAnUnsampledRun(t *testing.T) {
	r := record(sdk.WithSampler(sdk.NeverSample()))
	ran := false
	h := trace.Middleware(r.config())(troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		ran = true
		return errors.New("no")
	}))
	err := h.Perform(t.Context(), parsed(t, `{"class":"Order","queue":"orders","args":[],"jid":"j","traceparent":"`+parent+`"}`))
	if !ran || err == nil || len(r.Started()) != 0 {
		t.Errorf("ran: %v, %v; there are %s", ran, err, r)
	}
}
