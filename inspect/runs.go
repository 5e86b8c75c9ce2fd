package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/runs"
)

// RunLimits are the upper ends of the buckets of Runs, as Sidekiq counts run times. One more
// bucket has what took longer.
var RunLimits = [25]time.Duration(runs.Limits[runs.Below-1:])

// Runs is what the runs of a class were like in a span of time, as Sidekiq 7 and 8 and processes
// of troupe count them for Sidekiq's Metrics page.
type Runs struct {
	At      time.Time // the span begins
	Count   int64     // runs, failed ones included
	Failed  int64
	Time    time.Duration             // of the runs that did not fail, together
	Buckets [len(RunLimits) + 1]int64 // runs that did not fail, by how long they took; Redis keeps these for eight hours
}

// Add adds the numbers of o.
func (r *Runs) Add(o *Runs) {
	r.Count, r.Failed, r.Time = r.Count+o.Count, r.Failed+o.Failed, r.Time+o.Time
	for i, n := range o.Buckets {
		r.Buckets[i] += n
	}
}

// Quantile returns the time within which so large a part of the runs that did not fail has ended:
// the upper end of its bucket, and for what is above all limits the last of them. It is 0 if no run
// time is known.
func (r *Runs) Quantile(part float64) time.Duration {
	var total, sum int64
	for _, n := range r.Buckets {
		total += n
	}
	for i, n := range r.Buckets {
		if sum += n; n > 0 && float64(sum) >= part*float64(total) {
			return RunLimits[min(i, len(RunLimits)-1)]
		}
	}
	return 0
}

// minutesKept is how long Redis keeps the numbers of each minute. Those of ten minutes, which
// Sidekiq 8 writes, it keeps for three days.
const minutesKept = 8 * time.Hour

// hashOfRuns is a hash of counters, with the time that it is of.
type hashOfRuns struct {
	at     time.Time
	seven  bool
	fields *redis.MapStringStringCmd
}

// Runs returns what classes have run from a time ago until now, by class in spans of a length, the
// oldest first: of all classes that have run, or of those that are named. Redis knows minutes for
// eight hours, and spans of ten minutes for three days; a length below a minute is an error. It costs two commands for each minute,
// and one for each class and minute with a run.
func (i *Inspector) Runs(ctx context.Context, ago, length time.Duration, classes ...string) (map[string][]Runs, error) {
	if length < time.Minute {
		return nil, fmt.Errorf("read runs: length is %s, expected a minute or more", length)
	}
	now := time.Now()
	from := now.Add(-ago)
	seen, seven, err := i.counters(ctx, from, now, classes)
	if err == nil {
		err = i.buckets(ctx, now, seen, seven)
	}
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	all := map[string][]Runs{}
	for p, r := range seen {
		spans := all[p.class]
		if spans == nil {
			for at := from.Truncate(length); !at.After(now); at = at.Add(length) {
				spans = append(spans, Runs{At: at})
			}
			all[p.class] = spans
		}
		spans[min(max(0, int(p.at.Sub(spans[0].At)/length)), len(spans)-1)].Add(r)
	}
	return all, nil
}

// runsOf names what is counted apart.
type runsOf struct {
	class string
	at    time.Time
}

// counters reads the counters. Sidekiq 7 and 8 write keys of their own, and a process of troupe
// may write both: the fuller ones count.
func (i *Inspector) counters(ctx context.Context, from, now time.Time, classes []string) (seen map[runsOf]*Runs, seven map[runsOf]bool, err error) {
	var hashes []hashOfRuns
	var cmds []redis.Cmder
	read := func(at time.Time, seven bool, key string) {
		h := hashOfRuns{at, seven, redis.NewMapStringStringCmd(ctx, "hgetall", key)}
		hashes, cmds = append(hashes, h), append(cmds, h.fields)
	}
	fine := from.Truncate(time.Minute).Add(time.Minute)
	if now.Sub(from) >= minutesKept {
		fine = now.Add(-minutesKept).Truncate(10 * time.Minute)
		for at := from.Truncate(10 * time.Minute); at.Before(fine); at = at.Add(10 * time.Minute) {
			read(at, false, keys.TenMinutes8(at))
		}
	}
	for at := fine; !at.After(now); at = at.Add(time.Minute) {
		read(at, false, keys.Counters8(at))
		read(at, true, keys.Counters7(at))
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, nil, err
	}
	seen, seven = map[runsOf]*Runs{}, map[runsOf]bool{}
	for _, h := range hashes {
		for class, r := range countersIn(h.fields.Val()) {
			p := runsOf{class, h.at}
			if classes != nil && !slices.Contains(classes, class) {
				continue
			}
			if seen[p] == nil || r.Count > seen[p].Count {
				seen[p], seven[p] = r, h.seven
			}
		}
	}
	return seen, seven, nil
}

// countersIn reads a hash of counters: CLASS|p, CLASS|f and CLASS|ms.
func countersIn(fields map[string]string) map[string]*Runs {
	all := map[string]*Runs{}
	for field, text := range fields {
		at := strings.LastIndexByte(field, '|')
		n, err := strconv.ParseInt(text, 10, 64)
		if at < 0 || err != nil {
			continue
		}
		r := all[field[:at]]
		if r == nil {
			r = &Runs{}
			all[field[:at]] = r
		}
		switch field[at+1:] {
		case "p":
			r.Count += n
		case "f":
			r.Failed += n
		case "ms":
			r.Time += time.Duration(n) * time.Millisecond
		}
	}
	return all
}

// buckets reads the histograms: 16 bits a bucket, the most significant ones first.
func (i *Inspector) buckets(ctx context.Context, now time.Time, seen map[runsOf]*Runs, seven map[runsOf]bool) error {
	texts := map[runsOf]*redis.StringCmd{}
	var cmds []redis.Cmder
	for p := range seen {
		key := keys.Histogram8(p.class, p.at)
		if seven[p] {
			key = keys.Histogram7(p.class, p.at)
		}
		if now.Sub(p.at) <= minutesKept {
			texts[p] = redis.NewStringCmd(ctx, "get", key)
			cmds = append(cmds, texts[p])
		}
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return err
	}
	for p, cmd := range texts {
		text := cmd.Val()
		for k := 0; k < len(RunLimits)+1 && 2*k+1 < len(text); k++ {
			seen[p].Buckets[k] += int64(text[2*k])<<8 | int64(text[2*k+1])
		}
	}
	return nil
}
