package result_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/bench/internal/result"
)

func TestMedianAndPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"median of none", result.Median(nil), 0},
		{"median of an odd number", result.Median([]float64{9, 1, 5}), 5},
		{"median of an even number", result.Median([]float64{9, 1, 5, 6}), 5.5},
		{"p50", result.Percentile(hundred, 50), 50},
		{"p99", result.Percentile(hundred, 99), 99},
		{"p100", result.Percentile(hundred, 100), 100},
		{"p99 of one", result.Percentile([]float64{7}, 99), 7},
		{"p50 of none", result.Percentile(nil, 50), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, expected %v", c.what, c.got, c.want)
		}
	}
}

// What slows both down in a round does not show: a is 1, 2 and 3 times b, while
// its median is 3 times that of b.
func TestRatioIsTakenRoundByRound(t *testing.T) {
	s := &result.Set{}
	a, b := s.Row("x", "c", "a", 1), s.Row("x", "c", "b", 1)
	a.Samples[result.Rate.Key] = []float64{10, 200, 30}
	b.Samples[result.Rate.Key] = []float64{10, 100, 10}
	if got := result.Ratio(a, b, result.Rate); math.Abs(got-2) > 1e-9 {
		t.Errorf("ratio %v, expected 2", got)
	}
	if got := result.Ratio(a, nil, result.Rate); got != 0 {
		t.Errorf("ratio to nothing %v", got)
	}
}

func TestFormat(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0067: "0.0067", 0.999: "1", 1.005: "1.00", 22.31: "22.3", 9.9999: "10.0", 99.96: "100",
		812.4: "812", 34562.4: "34,562", 1_234_567: "1,234,567", -1500: "-1,500",
	} {
		if got := result.Format(v); got != want {
			t.Errorf("%v is %q, expected %q", v, got, want)
		}
	}
}

func sample() *result.Set {
	s := &result.Set{}
	for contender, rate := range map[string]float64{"troupe": 300_000, "asynq": 10_000, "brpop": 150_000} {
		r := s.Row(result.Drain, "25 processors", contender, 1000)
		r.Add(result.Rate, rate)
		r.Add(result.WorkerUS, 1e6/rate)
		r.Add(result.StoreUS, 5e5/rate)
	}
	s.Find(result.Drain, "25 processors", "troupe").Add(result.Trips, 0.01)
	s.Row(result.Latency, "1 process", "troupe", 5).Add(result.P50, 120)
	s.Row(result.Latency, "1 process", "brpop", 5).Add(result.P50, 100)
	return s
}

func TestGridComparesEachRowWithTroupe(t *testing.T) {
	s := sample()
	grid := s.Grid(result.Drain)
	if want := []string{"case", "contender", "jobs", "jobs/s", "worker µs/job", "store µs/job", "trips/job", "troupe/this"}; !slices.Equal(grid[0], want) {
		t.Errorf("header %q, expected %q", grid[0], want)
	}
	got := map[string]string{}
	for _, line := range grid[1:] {
		got[line[1]] = line[len(line)-1]
	}
	if got["asynq"] != "30.0×" || got["brpop"] != "2.00×" || got["troupe"] != "" {
		t.Errorf("comparisons %q", got)
	}
	latency := s.Grid(result.Latency)
	if last := latency[2]; last[len(last)-1] != "1.20×" {
		t.Errorf("latency of %q", last)
	}
}

func TestTargetsTellWhatIsReached(t *testing.T) {
	got := map[string]bool{}
	for _, target := range sample().Targets() {
		got[target.Scenario+" "+target.What] = target.OK()
	}
	want := map[string]bool{
		"drain 25 processors: worker and store µs/job over asynq's": true,  // 1/30 of 1/12
		"drain 25 processors: jobs/s over brpop's":                  false, // 2 of 3
		"drain troupe, 25 processors: worker µs/job":                true,
		"drain troupe, 25 processors: store µs/job":                 false, // 1.7 of 1.5
		"drain troupe, 25 processors: trips/job":                    true,
		"latency 1 process: p50 µs over brpop's":                    true, // 1.2 of at most 1.3
	}
	if len(got) != len(want) {
		t.Errorf("targets %v", got)
	}
	for what, ok := range want {
		if reached, there := got[what]; !there || reached != ok {
			t.Errorf("%s: there %v, reached %v, expected %v", what, there, reached, ok)
		}
	}
}

func TestASetSurvivesItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	if err := sample().Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := result.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var before, after strings.Builder
	s := sample()
	s.Rows, got.Rows = order(s.Rows), order(got.Rows)
	s.WriteText(&before)
	got.WriteText(&after)
	if before.String() != after.String() || !strings.Contains(after.String(), "30.0×") {
		t.Errorf("written:\n%s\nread:\n%s", before.String(), after.String())
	}
}

func order(rows []*result.Row) []*result.Row {
	return slices.SortedFunc(slices.Values(rows), func(a, b *result.Row) int {
		return strings.Compare(a.Scenario+a.Contender, b.Scenario+b.Contender)
	})
}
