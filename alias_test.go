package troupe

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestLookupFindsAliasesAndTheFallback(t *testing.T) {
	var r Registry
	h := HandlerFunc(func(context.Context, *Payload) error { return nil })
	HandleClass(&r, "New", h, Options{Retries: Times(2)})
	r.Alias("Old", "New")
	r.Alias("Older", "New")
	for class, want := range map[string]string{"New": "New", "Old": "New", "Older": "New", "Else": "", "": ""} {
		e, ok := r.Lookup(class)
		if e.Class != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", class, e.Class, ok)
		}
	}
	HandleClass(&r, AnyClass, h)
	for class, want := range map[string]string{"New": "New", "Old": "New", "Else": AnyClass, "": ""} {
		if e, _ := r.Lookup(class); e.Class != want {
			t.Errorf("with a fallback, %q: %q", class, e.Class)
		}
	}
	harness.EqualList(t, "classes", r.Classes(), []string{AnyClass, "New"})
	harness.Equal(t, "aliases", fmt.Sprint(r.Aliases()), "map[Old:New Older:New]")
}

func TestAliasPanicsOnMistakes(t *testing.T) {
	h := HandlerFunc(func(context.Context, *Payload) error { return nil })
	for want, mistake := range map[string]func(*Registry){
		`troupe: Alias: no handler for class "Missing", expected it to be registered before its alias "B"`:  func(r *Registry) { r.Alias("B", "Missing") },
		`troupe: Alias: the class "A" has a handler`:                                                        func(r *Registry) { r.Alias("A", "A") },
		`troupe: Alias: the class "Old" is an alias of "A" already`:                                         func(r *Registry) { r.Alias("Old", "A") },
		`troupe: Alias: no handler for class "Old", expected it to be registered before its alias "Oldest"`: func(r *Registry) { r.Alias("Oldest", "Old") },
		`troupe: Alias: from "" to "A", expected the names of two classes`:                                  func(r *Registry) { r.Alias("", "A") },
		`troupe: Alias: from "B" to "*", expected the names of two classes`:                                 func(r *Registry) { r.Alias("B", AnyClass) },
		`troupe: Handle: second handler for class "Old", which is an alias of "A"`:                          func(r *Registry) { HandleClass(r, "Old", h) },
		`troupe: Handle: class "B": Take is Percent(101), expected a number from 0 to 100`: func(r *Registry) {
			HandleClass(r, "B", h, Options{Take: Percent(101)})
		},
		`troupe: Handle: class "B": Take is Percent(NaN), expected a number from 0 to 100`: func(r *Registry) {
			HandleClass(r, "B", h, Options{Take: Percent(math.NaN())})
		},
		`troupe: Handle: class "B": RestQueue is "x", expected none without Take`: func(r *Registry) {
			HandleClass(r, "B", h, Options{RestQueue: "x"})
		},
	} {
		t.Run(want, func(t *testing.T) {
			var r Registry
			HandleClass(&r, "A", h)
			r.Alias("Old", "A")
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v", got)
				}
			}()
			mistake(&r)
		})
	}
}

// A share is as large as it says, and a job in it is in each larger one.
func TestAShareIsWhatItSays(t *testing.T) {
	const jobs = 100_000
	last := map[string]bool{}
	for _, percent := range []float64{0, 0.5, 10, 50, 99, 100} {
		s, n := Percent(percent), 0
		for i := range jobs {
			jid := fmt.Sprintf("%012x%012x", i*2654435761, i)
			if s.Has(jid) {
				n++
			}
			if last[jid] && !s.Has(jid) {
				t.Fatalf("%s is in a smaller share than %v percent", jid, percent)
			}
			last[jid] = s.Has(jid)
		}
		share := percent / 100
		if sigma := math.Sqrt(jobs * share * (1 - share)); math.Abs(float64(n)-jobs*share) > 5*sigma {
			t.Errorf("%v percent of %d jobs are %d", percent, jobs, n)
		}
	}
	if p, set := (Share{}).Percent(); p != 100 || set || !(Share{}).Has("x") {
		t.Errorf("the zero Share is %v, %v", p, set)
	}
	// the same in every release: other processes have decided by it
	harness.Equal(t, "b4a577edbccf1d805744efa9 in 50 percent", Percent(50).Has("b4a577edbccf1d805744efa9"), false)
	harness.Equal(t, "b4a577edbccf1d805744efa9 in 98 percent", Percent(98).Has("b4a577edbccf1d805744efa9"), true)
}
