package claimmodel

import (
	"flag"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	histories = flag.Int("model.histories", 1500, "how many histories the whole protocol survives")
	seed      = flag.Int("model.seed", 1, "the first of them")
	bound     = flag.Int("model.bound", 60_000, "in how many histories the lack of a rule must show")
	search    = flag.Bool("model.search", false, "look for the first history in which the lack of a rule shows")
	show      = flag.Bool("model.show", false, "show the smallest history in which the lack of a rule shows")
)

// even draws evenly: rapid's own numbers are mostly the smallest, and with them
// few faults would hit a job. The bits shrink to 0.
func even(t *rapid.T, n int) (drawn int) {
	for range bits.Len(uint(n - 1)) {
		drawn <<= 1
		if rapid.Bool().Draw(t, "bit") {
			drawn++
		}
	}
	if drawn >= n {
		drawn -= n
	}
	return drawn
}

// play draws a history and plays it. All that belongs to a step is drawn
// together, so that rapid can leave single steps out.
func play(t *rapid.T, rules Without, kind Kind, trace *strings.Builder) Outcome {
	drawn, steps := t, 0
	var do func()
	one := rapid.Custom(func(t *rapid.T) bool {
		if even(t, 128) == 0 {
			return false
		}
		drawn = t
		do()
		return true
	})
	return History(rules, kind, trace, func(n int) int { return even(drawn, n) }, func(step func()) bool {
		do = step
		steps++
		return steps < 250 && one.Draw(t, "step")
	})
}

// history plays the history of a seed.
func history(rules Without, kind Kind, seed int) Outcome {
	return rapid.Custom(func(t *rapid.T) Outcome { return play(t, rules, kind, nil) }).Example(seed)
}

// TestProtocol plays histories of the whole protocol: nothing is wrong in any.
// Each kind of fault has to occur among them.
func TestProtocol(t *testing.T) {
	protocol(t, Plain, "adopted", "broken off", "cloned", "closed a connection", "command lost", "cut", "fell back", "fenced",
		"forgotten by redis", "killed", "reply too large", "told fenced", "duplicate", "written back",
		"pushed with a move", "left out", "lock expired")
}

// TestProtocolWithLimits plays histories in which all jobs are under a limit.
func TestProtocolWithLimits(t *testing.T) {
	protocol(t, UnderLimits, "adopted", "fell back", "told fenced", "killed", "written back", "held")
}

// TestProtocolWithBatches plays histories in which jobs are in a batch, and their ends are kept.
func TestProtocolWithBatches(t *testing.T) {
	protocol(t, InBatches, "adopted", "fell back", "told fenced", "killed", "written back", "end kept", "callback pushed")
}

func protocol(t *testing.T, kind Kind, happened ...string) {
	t.Helper()
	steps, seen := 0, map[string]int{}
	for s := *seed; s < *seed+*histories; s++ {
		o := history(Without{}, kind, s)
		steps += o.Steps
		for what, n := range o.Seen {
			seen[what] += n
		}
		if o.Wrong != "" {
			shrink(t, Without{}, kind, s)
			t.Fatalf("history %d: %s", s, o.Wrong)
		}
	}
	t.Logf("%d histories, %d steps, %v", *histories, steps, seen)
	for _, what := range happened {
		if seen[what] == 0 && *histories >= 1500 {
			t.Errorf("%q never happened", what)
		}
	}
}

// TestEachRuleIsNeeded takes out one rule at a time. A history that is known to
// show its lack is played first. Where that no longer does, others are looked
// for, and the first is to be written into firstSeen.
func TestEachRuleIsNeeded(t *testing.T) {
	for field := range reflect.TypeFor[Without]().Fields() {
		rule := field.Name
		t.Run(rule, func(t *testing.T) {
			rules := without(rule)
			if why := spare[rule]; why != "" && !*search {
				t.Log(why)
				return
			}
			s, kind := firstSeen[rule], Plain
			if with, ok := firstWithLimits[rule]; ok {
				s, kind = with, UnderLimits
			}
			if with, ok := firstWithBatches[rule]; ok {
				s, kind = with, InBatches
			}
			known := s
			if s == 0 || *search || history(rules, kind, s).Wrong == "" {
				for s = 1; s <= *bound && history(rules, kind, s).Wrong == ""; s++ {
					continue
				}
				if s > *bound {
					t.Fatalf("its lack shows in none of %d histories", *bound)
				}
				if s != known {
					t.Errorf("its lack shows in history %d, and not in %d, as the table says: correct it", s, known)
				}
			}
			t.Logf("history %d: %.160s", s, history(rules, kind, s).Wrong)
			if *show {
				shrink(t, rules, kind, s)
			}
		})
	}
}

// TestRulesAreListed compares the two tables with the rules.
func TestRulesAreListed(t *testing.T) {
	for _, table := range []map[string]bool{named(firstSeen), named(firstWithLimits), named(firstWithBatches), named(spare)} {
		for rule := range table {
			if _, ok := reflect.TypeFor[Without]().FieldByName(rule); !ok {
				t.Errorf("there is no rule %s", rule)
			}
		}
	}
}

func named[V any](table map[string]V) map[string]bool {
	names := map[string]bool{}
	for name := range table {
		names[name] = true
	}
	return names
}

// without returns the rules with one taken out.
func without(rule string) (rules Without) {
	reflect.ValueOf(&rules).Elem().FieldByName(rule).SetBool(true)
	return rules
}

// shrink has rapid look for the smallest history in which the same kind of thing
// is wrong. It fails the test with its trace.
func shrink(t *testing.T, rules Without, kind Kind, seed int) {
	for name, value := range map[string]string{"rapid.seed": strconv.Itoa(seed), "rapid.checks": "1", "rapid.nofailfile": "true", "rapid.shrinktime": "15s"} {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	what, _, _ := strings.Cut(history(rules, kind, seed).Wrong, ":")
	rapid.Check(t, func(rt *rapid.T) {
		var trace strings.Builder
		if o := play(rt, rules, kind, &trace); strings.HasPrefix(o.Wrong, what) && o.Wrong != "" {
			rt.Fatalf("%s\n%s", o.Wrong, trace.String())
		}
	})
}
