package troupe

import (
	"context"
	"slices"
	"testing"
	"time"
)

type unsettled struct{}

func (unsettled) Class() string     { return "Unsettled" }
func (unsettled) Defaults() Options { return Timeout(-time.Minute) }

type unable struct{}

func (*unable) Class() string     { return "Unable" }
func (*unable) Defaults() Options { panic("no settings") }

// settled is named by its value and has its options from a pointer.
type settled struct {
	N *int `arg:"0"`
}

func (settled) Class() string { return "Settled" }
func (s *settled) Defaults() Options {
	return Options{Queue: "critical", Tags: []string{"a"}, Retries: Times(5), Backtrace: 3, Timeout: time.Minute, Recovery: Recovery{Dead: true}}
}

func TestDefaultsOf(t *testing.T) {
	for _, args := range []Args{settled{}, &settled{}, (*settled)(nil)} {
		if o, err := DefaultsOf(args); err != nil || o.Queue != "critical" || o.Retries != Times(5) || !slices.Equal(o.Tags, []string{"a"}) {
			t.Errorf("%#v: %+v, %v", args, o, err)
		}
	}
	for _, args := range []Args{nil, charge{}, &object{}} {
		if o, err := DefaultsOf(args); err != nil || o.Queue != "" || o.Retries != (Retries{}) {
			t.Errorf("%#v: %+v, %v", args, o, err)
		}
	}
}

func TestOptionsOfHandleCountBeforeThoseOfTheType(t *testing.T) {
	var r Registry
	Handle(&r, func(context.Context, *Job[settled]) error { return nil },
		Timeout(time.Second), Options{Retries: Never(), Dead: new(false)}, Timeout(time.Hour))
	e, _ := r.Lookup("Settled")
	o := e.Options
	if o.Timeout != time.Hour || o.Retries != Never() || o.Dead == nil || *o.Dead {
		t.Errorf("Handle's: %+v", o)
	}
	if o.Queue != "critical" || o.Backtrace != 3 || !o.Recovery.Dead {
		t.Errorf("the type's: %+v", o)
	}
	mark := func(next Handler) Handler { return next }
	top := Options{
		Queue: "q", Tags: []string{"t"}, Retries: Times(1), RetryQueue: "r", Dead: new(true), Backtrace: -1, Timeout: 1, ExpireAfter: 2, DropExpired: true,
		RetryIn:   func(int, error, *Payload) Delay { return 1 },
		Exhausted: func(*Payload, error) bool { return true },
		Recovery:  Recovery{Queue: "big"}, Middleware: []Middleware{mark},
	}
	for name, got := range map[string]Options{"over nothing": Options{}.under(top), "under nothing": top.under(Options{})} {
		if got.Queue != "q" || got.Tags == nil || got.Retries != Times(1) || got.RetryQueue != "r" || got.Dead != top.Dead || got.Backtrace != -1 ||
			got.Timeout != 1 || got.ExpireAfter != 2 || !got.DropExpired || got.RetryIn == nil || got.Exhausted == nil || got.Recovery.Queue != "big" || len(got.Middleware) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRetries(t *testing.T) {
	type limit struct {
		n   int
		set bool
	}
	for r, want := range map[Retries]limit{{}: {}, Never(): {-1, true}, Times(0): {0, true}, Times(5): {5, true}} {
		if n, set := r.Limit(); (limit{n, set}) != want {
			t.Errorf("%+v: limit %d, %v", r, n, set)
		}
	}
}
