// Package result holds what was measured: samples per row and round, their
// medians and ratios, and the one table that shows them.
package result

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
)

// Row is one contender in one case of a scenario, with a sample per round.
type Row struct {
	Scenario  string               `json:"scenario"`
	Case      string               `json:"case"`
	Contender string               `json:"contender"`
	Jobs      int                  `json:"jobs"`
	Samples   map[string][]float64 `json:"samples"` // by the key of a Metric
}

// Set is the outcome of one call of the driver.
type Set struct {
	Machine Machine           `json:"machine"`
	About   map[string]string `json:"about"` // contender -> how it was set up
	Rows    []*Row            `json:"rows"`
	Left    []string          `json:"left_out,omitempty"` // what could not run, and why
}

// Row returns the row of that name, which it makes if there is none.
func (s *Set) Row(scenario, kase, contender string, jobs int) *Row {
	if r := s.Find(scenario, kase, contender); r != nil {
		return r
	}
	r := &Row{Scenario: scenario, Case: kase, Contender: contender, Jobs: jobs, Samples: map[string][]float64{}}
	s.Rows = append(s.Rows, r)
	return r
}

// Find returns the row of that name, nil if there is none.
func (s *Set) Find(scenario, kase, contender string) *Row {
	for _, r := range s.Rows {
		if r.Scenario == scenario && r.Case == kase && r.Contender == contender {
			return r
		}
	}
	return nil
}

// Scenarios are the names of the scenarios, in the order in which they ran.
func (s *Set) Scenarios() []string { return names(s.Rows, func(r *Row) string { return r.Scenario }) }

// Of returns the rows of a scenario, its cases together.
func (s *Set) Of(scenario string) (rows []*Row) {
	for _, r := range s.Rows {
		if r.Scenario == scenario {
			rows = append(rows, r)
		}
	}
	cases := names(rows, func(r *Row) string { return r.Case })
	slices.SortStableFunc(rows, func(a, b *Row) int {
		return cmp.Compare(slices.Index(cases, a.Case), slices.Index(cases, b.Case))
	})
	return rows
}

func names(rows []*Row, of func(*Row) string) (out []string) {
	for _, r := range rows {
		if name := of(r); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Add notes one sample.
func (r *Row) Add(m Metric, value float64) { r.Samples[m.Key] = append(r.Samples[m.Key], value) }

// Has reports whether there is a sample.
func (r *Row) Has(m Metric) bool { return r != nil && len(r.Samples[m.Key]) > 0 }

// Median is the median of the rounds; 0 without a sample.
func (r *Row) Median(m Metric) float64 {
	if r == nil {
		return 0
	}
	return Median(r.Samples[m.Key])
}

// Ratio is the median of a's samples over b's, round by round: what was measured
// one after the other shares the noise of that minute. 0 if there is none.
func Ratio(a, b *Row, m Metric) float64 {
	if !a.Has(m) || !b.Has(m) {
		return 0
	}
	var ratios []float64
	for i, value := range a.Samples[m.Key] {
		if other := b.Samples[m.Key]; i < len(other) && other[i] != 0 {
			ratios = append(ratios, value/other[i])
		}
	}
	return Median(ratios)
}

// Median is the middle of values, the mean of the two middle ones of an even
// number; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Percentile is the smallest of values that at least p percent do not exceed.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(float64(len(sorted))*p/100 + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Write saves the set as JSON.
func (s *Set) Write(path string) error {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Load reads what Write has saved.
func Load(path string) (*Set, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &Set{}
	return s, json.Unmarshal(text, s)
}
