package report

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupehq/troupe/bench/internal/result"
)

// plot is a picture of a scenario.
type plot struct {
	scenario, file, title string
}

// drawAll makes the plots for which there are figures.
func drawAll(set *result.Set, dir string) (drawn []plot, err error) {
	for _, p := range []struct {
		plot
		chart func(*result.Set) *chart
	}{
		{plot{result.Concurrency, "throughput.svg", "Throughput by concurrency"}, throughput(result.Concurrency)},
		{plot{result.Scale, "scale.svg", "Throughput by processes"}, throughput(result.Scale)},
		{plot{result.Drain, "cost.svg", "Processor time per job"}, cost},
		{plot{result.Latency, "latency.svg", "Push to start, idle processes"}, latency},
	} {
		c := p.chart(set)
		if c == nil {
			continue
		}
		c.title = p.title
		if err := c.save(filepath.Join(dir, p.file)); err != nil {
			return nil, err
		}
		drawn = append(drawn, p.plot)
	}
	return drawn, nil
}

// throughput is a line for each contender over the cases of a scenario that are
// a number of something.
func throughput(scenario string) func(*result.Set) *chart {
	return func(set *result.Set) *chart {
		c := &chart{y: "jobs/s", lines: true}
		rows := slices.DeleteFunc(set.Of(scenario), func(r *result.Row) bool { return strings.Contains(r.Case, ",") })
		c.fill(rows, result.Rate, "")
		return c.orNil()
	}
}

// cost stacks the time of worker and store for each contender.
func cost(set *result.Set) *chart {
	c := &chart{y: "µs of processor time per job", stacked: true}
	for _, m := range []result.Metric{result.WorkerUS, result.StoreUS} {
		s := series{name: map[string]string{result.WorkerUS.Key: "worker", result.StoreUS.Key: "store"}[m.Key]}
		for _, r := range set.Of(result.Drain) {
			s.values = append(s.values, r.Median(m))
		}
		c.series = append(c.series, s)
	}
	for _, r := range set.Of(result.Drain) {
		c.groups = append(c.groups, r.Contender)
	}
	return c.orNil()
}

// latency has two lines for each contender: what half of the jobs waited, and
// what all but one in a hundred did not exceed.
func latency(set *result.Set) *chart {
	c := &chart{y: "µs", lines: true}
	c.fill(set.Of(result.Latency), result.P50, " p50")
	c.fill(set.Of(result.Latency), result.P99, " p99")
	return c.orNil()
}

// fill adds a series for each contender, with a value for each case.
func (c *chart) fill(rows []*result.Row, m result.Metric, suffix string) {
	for _, r := range rows {
		if !slices.Contains(c.groups, r.Case) {
			c.groups = append(c.groups, r.Case)
		}
	}
	for _, r := range rows {
		name := r.Contender + suffix
		i := slices.IndexFunc(c.series, func(s series) bool { return s.name == name })
		if i < 0 {
			i = len(c.series)
			c.series = append(c.series, series{name: name, values: make([]float64, len(c.groups))})
		}
		c.series[i].values[slices.Index(c.groups, r.Case)] = r.Median(m)
	}
}

// orNil is nil for a chart without figures.
func (c *chart) orNil() *chart {
	if len(c.groups) == 0 {
		return nil
	}
	return c
}
