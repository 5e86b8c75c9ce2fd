package result

import "strings"

// Scenario names; see package scenario for what each does.
const (
	Drain       = "drain"
	Concurrency = "concurrency"
	Cost        = "cost"
	Latency     = "latency"
	Idle        = "idle"
	Mixed       = "mixed"
	Slow        = "slow"
	Failures    = "failures"
	Schedule    = "schedule"
	Late        = "late"
	Enqueue     = "enqueue"
	Limits      = "limits"
	FanOut      = "fanout"
	Scale       = "scale"
	Memory      = "memory"
)

// Target is a figure that the project wants to reach. None fails a run: what a
// machine of another size or a noisy minute can break is told, not asserted.
type Target struct {
	Scenario string
	What     string
	Want     float64
	AtMost   bool // else at least
	Got      float64
}

// OK reports whether it was reached.
func (t Target) OK() bool {
	if t.AtMost {
		return t.Got <= t.Want
	}
	return t.Got >= t.Want
}

type targets struct {
	s   *Set
	all []Target
}

// value adds a target for the median of a row, if it was measured.
func (t *targets) value(r *Row, m Metric, want float64, atMost bool) {
	if r.Has(m) {
		t.all = append(t.all, Target{r.Scenario, r.Contender + ", " + r.Case + ": " + m.Title, want, atMost, r.Median(m)})
	}
}

// ratio adds a target for a over b.
func (t *targets) ratio(a, b *Row, m Metric, want float64, atMost bool) {
	if a.Has(m) && b.Has(m) {
		what := a.Case + ": " + m.Title + " over " + b.Contender + "'s"
		if a.Contender != Reference {
			what = a.Contender + ", " + what
		}
		if a.Case != b.Case {
			what = a.Case + ": " + m.Title + " over that of " + b.Case
		}
		t.all = append(t.all, Target{a.Scenario, what, want, atMost, Ratio(a, b, m)})
	}
}

// against adds a target for the reference over another contender in each case.
func (t *targets) against(scenario, other string, m Metric, want float64, atMost bool) {
	for _, r := range t.s.Of(scenario) {
		if r.Contender == Reference {
			t.ratio(r, t.s.Find(scenario, r.Case, other), m, want, atMost)
		}
	}
}

// each adds a target for the reference in each case whose name begins so.
func (t *targets) each(scenario, prefix string, m Metric, want float64, atMost bool) {
	for _, r := range t.s.Of(scenario) {
		if r.Contender == Reference && strings.HasPrefix(r.Case, prefix) {
			t.value(r, m, want, atMost)
		}
	}
}

// Targets compares what was measured with what is wanted.
func (s *Set) Targets() []Target {
	t := &targets{s: s}
	t.against(Drain, "brpop", Rate, 3, false)
	t.work(Drain, "asynq", 1.0/12)
	t.spread(0.7)
	t.each(Drain, "", WorkerUS, 4.5, true)
	t.each(Drain, "", StoreUS, 1.5, true)
	t.each(Drain, "", Trips, 0.02, true)
	for _, r := range s.Of(Drain) {
		if r.Contender == "troupe-info" {
			t.ratio(r, s.Find(Drain, r.Case, Reference), WorkerUS, 1.5, true)
		}
	}
	for _, r := range s.Of(Cost) {
		if r.Contender == "troupe-raw" {
			t.value(r, Allocs, 8, true)
		}
	}
	t.against(Latency, "brpop", P50, 1.3, true)
	t.each(Latency, "", P99, 2000, true)
	t.each(Latency, "", Commands, 5, true)
	t.each(Idle, "one", CommandsS, 5, true)
	t.value(s.Find(Idle, "one queue", Reference), CallsS, 12, true)
	t.each(Idle, "one queue, ", CallsS, 18, true)
	t.each(Late, "", P99, 100_000, true)
	t.each(Slow, "1 ms", Kept, 60, false)
	t.against(Failures, "asynq", Rate, 7, false)
	t.against(Schedule, "asynq", Rate, 8, false)
	t.ratio(s.Find(Enqueue, "single", Reference), s.Find(Enqueue, "single", "pipeline"), P50, 1.15, true)
	t.ratio(s.Find(Enqueue, "few", Reference), s.Find(Enqueue, "few", "asynq"), Rate, 2, false)
	t.ratio(s.Find(Enqueue, "few", Reference), s.Find(Enqueue, "few", "gocraft-work"), Rate, 1.2, false)
	t.ratio(s.Find(Enqueue, "parallel", Reference), s.Find(Enqueue, "parallel", "asynq"), Rate, 5, false)
	t.value(s.Find(Enqueue, "bulk", Reference), Rate, 400_000, false)
	for _, r := range s.Of(Memory) {
		t.value(r, Growth, 5, true)
	}
	return t.all
}

// work adds a target for the processor time of worker and store together, over another
// contender's.
func (t *targets) work(scenario, other string, want float64) {
	for _, r := range t.s.Of(scenario) {
		o := t.s.Find(scenario, r.Case, other)
		if r.Contender != Reference || !r.Has(WorkerUS) || !r.Has(StoreUS) || !o.Has(WorkerUS) || !o.Has(StoreUS) {
			continue
		}
		part := (r.Median(WorkerUS) + r.Median(StoreUS)) / (o.Median(WorkerUS) + o.Median(StoreUS))
		t.all = append(t.all, Target{scenario, r.Case + ": worker and store µs/job over " + other + "'s", want, true, part})
	}
}

// spread adds a target for the rates at all concurrencies and queues: none is
// below that part of the rate with 25 processors and one queue.
func (t *targets) spread(part float64) {
	base := t.s.Find(Concurrency, "25 processors", Reference)
	for _, r := range t.s.Of(Concurrency) {
		if r.Contender == Reference && r != base {
			t.ratio(r, base, Rate, part, false)
		}
	}
}

// TargetGrid is a table of targets.
func TargetGrid(targets []Target) [][]string {
	grid := [][]string{{"scenario", "what", "wanted", "measured", ""}}
	for _, t := range targets {
		want, verdict := "≥ "+Format(t.Want), "no"
		if t.AtMost {
			want = "≤ " + Format(t.Want)
		}
		if t.OK() {
			verdict = "yes"
		}
		grid = append(grid, []string{t.Scenario, t.What, want, Format(t.Got), verdict})
	}
	return grid
}
