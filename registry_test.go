package troupe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/test/harness"
)

type (
	charge struct {
		AccountID int64  `arg:"0"`
		Cents     int64  `arg:"1"`
		Currency  string `arg:"2"`
	}
	object  struct{ Addr address }
	address struct {
		City string `json:"city"`
	}
)

func (charge) Class() string  { return "Billing::Charge" }
func (*object) Class() string { return "Object" }

type nameless struct{}

func (nameless) Class() string { return "" }

type mistaken struct {
	A int `arg:"1"`
}

func (mistaken) Class() string { return "Mistaken" }

func TestHandleRunsTypedJobs(t *testing.T) {
	var r Registry
	var got *Job[charge]
	Handle(&r, func(_ context.Context, j *Job[charge]) error {
		got = j
		return nil
	}, Options{Retries: Times(3), Timeout: time.Minute})
	e, ok := r.Lookup("Billing::Charge")
	if !ok || e.Class != "Billing::Charge" || e.Options.Timeout != time.Minute {
		t.Fatalf("entry %+v, %v", e, ok)
	}
	p := mustParse(t, `{"class":"Billing::Charge","jid":"j1","queue":"low","args":[1,2,"EUR"],"retry_count":1,"created_at":1795224881.5,"enqueued_at":1795224882500}`)
	ctx := context.WithValue(t.Context(), jobctx.Info{}, &JobInfo{JID: "j1", Queue: "critical", Capsule: "default", Attempt: 3})
	harness.OK(t, e.Handler.Perform(ctx, p))
	if got.Args != (charge{1, 2, "EUR"}) || got.JID != "j1" || got.Queue != "critical" || got.Attempt != 3 || got.Payload != p {
		t.Errorf("job %+v", got)
	}
	if err := e.Handler.Perform(t.Context(), p); err != nil || got.Queue != "low" {
		t.Errorf("outside of a daemon: queue %q, %v", got.Queue, err)
	}
	bad := mustParse(t, `{"class":"Billing::Charge","args":[1]}`)
	if _, ok := errors.AsType[*ArgsError](e.Handler.Perform(ctx, bad)); !ok {
		t.Error("args that do not fit are not an ArgsError")
	}
}

func TestHandlePointerType(t *testing.T) {
	var r Registry
	var got *object
	Handle(&r, func(_ context.Context, j *Job[*object]) error {
		got = j.Args
		return nil
	})
	e, _ := r.Lookup("Object")
	if err := e.Handler.Perform(t.Context(), mustParse(t, `{"args":[{"Addr":{"city":"x"}}]}`)); err != nil || got.Addr.City != "x" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestHandlePanicsOnMistakes(t *testing.T) {
	handler := HandlerFunc(func(context.Context, *Payload) error { return nil })
	for want, mistake := range map[string]func(*Registry){
		`troupe: Handle: empty class`:                      func(r *Registry) { HandleClass(r, "", handler) },
		`troupe: Handle: nil handler for class "A"`:        func(r *Registry) { HandleClass(r, "A", nil) },
		`troupe: Handle: second handler for class "Taken"`: func(r *Registry) { HandleClass(r, "Taken", handler) },
		`troupe: Handle: class "A": Retries is Times(-2), expected a number from 0, or Never`: func(r *Registry) {
			HandleClass(r, "A", handler, Options{Retries: Times(-2)})
		},
		`troupe: Handle: class "A": Timeout is -1s, expected a time above 0`: func(r *Registry) { HandleClass(r, "A", handler, Timeout(-time.Second)) },
		`troupe: Handle: class "A": Queue is "low", expected none: it belongs to a push, so to Defaults or client.Queue`: func(r *Registry) {
			HandleClass(r, "A", handler, Options{Queue: "low"})
		},
		`troupe: Handle: class "A": Tags is ["x"], expected none: they belong to a push, so to Defaults or client.Tags`: func(r *Registry) {
			HandleClass(r, "A", handler, Options{Tags: []string{"x"}})
		},
		`troupe: Handle: class "A": Encrypt is true, expected false: it belongs to a push, so to Defaults or client.Encrypt`: func(r *Registry) {
			HandleClass(r, "A", handler, Options{Encrypt: true})
		},
		`troupe: Handle: Defaults of troupe.unsettled: Timeout is -1m0s, expected a time above 0`: func(r *Registry) {
			Handle(r, func(context.Context, *Job[unsettled]) error { return nil })
		},
		`troupe: Handle: Defaults of troupe.unable: panic: no settings`: func(r *Registry) {
			Handle(r, func(context.Context, *Job[*unable]) error { return nil })
		},
		`troupe: Handle: class "A": Middleware[0] is nil, expected a function`: func(r *Registry) {
			HandleClass(r, "A", handler, Options{Middleware: []Middleware{nil}})
		},
		`troupe: Handle: nil handler for class "B"`:                            func(r *Registry) { HandleClass(r, "B", HandlerFunc(nil)) },
		`troupe: Handle: nil function for troupe.charge`:                       func(r *Registry) { Handle[charge](r, nil) },
		`troupe: Handle: troupe.Args is an interface, not a type of arguments`: func(r *Registry) { Handle(r, func(context.Context, *Job[Args]) error { return nil }) },
		`troupe: Handle: troupe.mistaken: expected positions without gaps, none is arg:"0"`: func(r *Registry) {
			Handle(r, func(context.Context, *Job[mistaken]) error { return nil })
		},
		`troupe: Handle: empty class of troupe.nameless`: func(r *Registry) {
			Handle(r, func(context.Context, *Job[nameless]) error { return nil })
		},
	} {
		t.Run(want, func(t *testing.T) {
			var r Registry
			HandleClass(&r, "Taken", handler)
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got %v", got)
				}
				harness.EqualList(t, "registered after the panic", r.Classes(), []string{"Taken"})
			}()
			mistake(&r)
		})
	}
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	var r Registry
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			class := fmt.Sprint("C", i)
			HandleClass(&r, class, HandlerFunc(func(context.Context, *Payload) error { return nil }))
			if _, ok := r.Lookup(class); !ok {
				t.Error("just registered and not found")
			}
			r.Classes()
		})
	}
	wg.Wait()
	if got := strings.Join(r.Classes(), " "); got != "C0 C1 C2 C3 C4 C5 C6 C7" {
		t.Errorf("got %s", got)
	}
	var none Registry
	if _, ok := none.Lookup("x"); ok || none.Classes() != nil {
		t.Error("the zero registry is not empty")
	}
}

func TestEntryChain(t *testing.T) {
	var order []string
	mark := func(name string) Middleware {
		return func(next Handler) Handler {
			return HandlerFunc(func(ctx context.Context, p *Payload) error {
				order = append(order, name)
				return next.Perform(ctx, p)
			})
		}
	}
	e := Entry{
		Handler: HandlerFunc(func(context.Context, *Payload) error {
			order = append(order, "handler")
			return nil
		}),
		Options: Options{Middleware: []Middleware{mark("class 1"), mark("class 2")}},
	}
	h := harness.Must(e.Chain(mark("outer 1"), mark("outer 2")))(t)
	harness.OK(t, h.Perform(t.Context(), &Payload{}))
	if got, want := strings.Join(order, ", "), "outer 1, outer 2, class 1, class 2, handler"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAMiddlewareThatMakesNoHandlerIsToldOf(t *testing.T) {
	handler := HandlerFunc(func(context.Context, *Payload) error { return nil })
	none := func(Handler) Handler { return nil }
	noFunc := func(Handler) Handler { return HandlerFunc(nil) }
	same := func(next Handler) Handler { return next }
	for want, chain := range map[string]struct{ own, outer []Middleware }{
		`class "C": Options.Middleware[1] returned nil, expected a Handler`: {own: []Middleware{same, none}},
		`class "C": Options.Middleware[0] is nil, expected a function`:      {own: []Middleware{nil, same}},
		`class "C": Middleware[0] returned nil, expected a Handler`:         {outer: []Middleware{noFunc}},
		`class "C": Middleware[1] is nil, expected a function`:              {outer: []Middleware{same, nil}},
	} {
		e := Entry{Class: "C", Handler: handler, Options: Options{Middleware: chain.own}}
		if h, err := e.Chain(chain.outer...); h != nil || err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestJobInfo(t *testing.T) {
	if info, ok := JobInfoFrom(t.Context()); ok {
		t.Errorf("info outside of a job: %+v", info)
	}
	want := JobInfo{JID: "j", Class: "C", Queue: "q", Capsule: "c", Attempt: 1}
	if got, ok := JobInfoFrom(context.WithValue(t.Context(), jobctx.Info{}, &want)); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
}
