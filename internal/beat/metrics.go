package beat

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/runs"
	"github.com/troupehq/troupe/internal/script"
)

// Dialects are the forms in which job metrics are written; 0 means not at all.
type Dialects uint8

// The dialects: the Sidekiq version whose Metrics page reads them.
const (
	Dialect7 Dialects = 1 << iota
	Dialect8
)

const (
	minuteTTL     = 8 * time.Hour  // of a minute's counters and histograms
	tenMinutesTTL = 72 * time.Hour // of 8's coarser counters
)

//go:embed metrics.lua
var metricsSource string

var metricsScript = script.New("beat.metrics", metricsSource)

// Metrics writes what Sidekiq's Metrics page shows: how often jobs of each class ran and
// failed, and how long they took. Like a Flusher it writes numbered batches, each exactly
// once. A nil *Metrics writes nothing.
//
// Counting is safe for concurrent use; Flush is for one goroutine at a time.
type Metrics struct {
	identity string
	dialects Dialects
	totals   func() map[string]runs.Totals
	told     map[string]runs.Totals // of totals

	mu    sync.Mutex
	named map[string]*runs.Totals // see CountAs

	batch   int64
	sent    []write // the batch, as long as Redis has not answered
	refused bool    // the last batch was not taken in full
}

// NewMetrics makes the one Metrics of a process; nil if there is nothing to write. totals
// returns the runs of each class since the start.
func NewMetrics(identity string, d Dialects, totals func() map[string]runs.Totals) *Metrics {
	if d == 0 {
		return nil
	}
	return &Metrics{identity: identity, dialects: d, totals: totals, told: map[string]runs.Totals{}}
}

// CountAs counts a run of a class that is none of the totals, since its name comes from a
// payload. It is forgotten at the next flush.
func (m *Metrics) CountAs(class string, o job.Outcome, took time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.named[class]
	if t == nil {
		if m.named == nil {
			m.named = map[string]*runs.Totals{}
		}
		t = &runs.Totals{}
		m.named[class] = t
	}
	t.Count(o, false, took)
}

// RefusedError tells that Redis has taken only a part of the metrics, or none,
// and why; the rest is lost. Nothing else is harmed.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "flush metrics: redis refused: " + e.Reason }

// Flush writes what was counted, and what earlier calls could not deliver, into
// the UTC minute of now (a batch that is sent again: of its first time). With
// nothing to write it does not touch Redis. A *RefusedError comes once, until a
// batch is taken in full again; after any other error the batch is still held.
func (m *Metrics) Flush(ctx context.Context, rdb redis.UniversalClient, now time.Time) error {
	if m == nil {
		return nil
	}
	var news error
	if len(m.sent) > 0 {
		if news = m.send(ctx, rdb); len(m.sent) > 0 {
			return news
		}
	}
	if m.sent = m.dialects.writes(m.take(), now); len(m.sent) == 0 {
		return news
	}
	m.batch++
	return cmp.Or(m.send(ctx, rdb), news)
}

// counts are what there is to write of a class.
type counts struct {
	class       string
	all, failed uint64
	ms          int64
	timed       bool
	buckets     [buckets]uint64
}

// buckets are those of Sidekiq's histogram.
const buckets = len(runs.Limits) + 2 - runs.Below

// add adds what t has more than was. Parts of a millisecond stay: the sum over many short jobs
// is right, where Ruby, whose clock here has whole milliseconds, relies on its error to cancel
// out.
func (c *counts) add(was, t *runs.Totals) {
	c.all += t.Processed() - was.Processed()
	c.failed += t.Failed() - was.Failed()
	c.ms += t.Times.Sum.Milliseconds() - was.Times.Sum.Milliseconds()
	for i, n := range t.Times.Buckets {
		if n -= was.Times.Buckets[i]; n > 0 {
			c.timed = true
			c.buckets[max(0, i+1-runs.Below)] += n
		}
	}
}

// take returns what was counted since the last time, by class.
func (m *Metrics) take() []*counts {
	byClass := map[string]*counts{}
	add := func(class string, was, t *runs.Totals) {
		if t.Processed() == was.Processed() {
			return
		}
		if byClass[class] == nil {
			byClass[class] = &counts{class: class}
		}
		byClass[class].add(was, t)
	}
	for class, t := range m.totals() {
		was := m.told[class]
		add(class, &was, &t)
		m.told[class] = t
	}
	m.mu.Lock()
	named := m.named
	m.named = nil
	m.mu.Unlock()
	for class, t := range named {
		add(class, new(runs.Totals), t)
	}
	return slices.SortedFunc(maps.Values(byClass), func(a, b *counts) int { return cmp.Compare(a.class, b.class) })
}

// write is what one batch adds to one key.
type write struct {
	key, command string
	ttl          time.Duration
	args         []any // HINCRBY: field, number, …; BITFIELD: its own
}

func (d Dialects) writes(taken []*counts, now time.Time) (ws []write) {
	var fields []any
	add := func(class, metric string, n any) { fields = append(fields, class+"|"+metric, n) }
	for _, c := range taken {
		add(c.class, "p", c.all)
		if c.failed > 0 {
			add(c.class, "f", c.failed)
		}
		if c.timed {
			add(c.class, "ms", c.ms)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	if d&Dialect7 != 0 {
		ws = append(ws, write{keys.Counters7(now), "HINCRBY", minuteTTL, fields})
	}
	if d&Dialect8 != 0 {
		ws = append(ws, write{keys.Counters8(now), "HINCRBY", minuteTTL, fields},
			write{keys.TenMinutes8(now), "HINCRBY", tenMinutesTTL, fields})
	}
	for _, c := range taken {
		if !c.timed {
			continue
		}
		args := []any{"OVERFLOW", "SAT"}
		for i, n := range c.buckets {
			if n > 0 {
				args = append(args, "INCRBY", "u16", "#"+strconv.Itoa(i), n)
			}
		}
		if d&Dialect7 != 0 {
			ws = append(ws, write{keys.Histogram7(c.class, now), "BITFIELD", minuteTTL, args})
		}
		if d&Dialect8 != 0 {
			ws = append(ws, write{keys.Histogram8(c.class, now), "BITFIELD", minuteTTL, args})
		}
	}
	return ws
}

// send delivers the batch; it is forgotten as soon as Redis has answered.
func (m *Metrics) send(ctx context.Context, rdb redis.UniversalClient) error {
	var refusal string
	var err error
	if redisconn.OnCluster(rdb) {
		err = m.pipe(ctx, rdb)
	} else {
		refusal, err = m.runScript(ctx, rdb)
	}
	if reply, ok := errors.AsType[redis.Error](err); ok && (redisconn.Classify(err) == redisconn.Command || redis.HasErrorPrefix(err, "NOPERM")) {
		refusal, err = reply.Error(), nil
	}
	if err != nil {
		return fmt.Errorf("flush metrics: %w", err)
	}
	m.sent = nil
	told := m.refused
	if m.refused = refusal != ""; m.refused && !told {
		return &RefusedError{Reason: refusal}
	}
	return nil
}

func (m *Metrics) runScript(ctx context.Context, rdb redis.UniversalClient) (refusal string, err error) {
	names := []string{keys.Measured(m.identity)}
	args := []any{m.batch, int(receiptTTL.Seconds())}
	for _, w := range m.sent {
		names = append(names, w.key)
		args = append(append(args, w.command, int(w.ttl.Seconds()), len(w.args)), w.args...)
	}
	return metricsScript.Run(ctx, rdb, names, args...).Text()
}

// pipe is for a cluster, where the keys have no common slot: a batch whose reply
// was lost may count twice.
func (m *Metrics) pipe(ctx context.Context, rdb redis.UniversalClient) error {
	cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, w := range m.sent {
			if w.command == "HINCRBY" {
				for i := 0; i < len(w.args); i += 2 {
					p.Do(ctx, w.command, w.key, w.args[i], w.args[i+1])
				}
			} else {
				p.Do(ctx, append([]any{w.command, w.key}, w.args...)...)
			}
			p.Expire(ctx, w.key, w.ttl)
		}
		return nil
	})
	for _, cmd := range cmds { // an outage matters more than a refusal before it
		if redisconn.Classify(cmd.Err()) == redisconn.Outage {
			return cmd.Err()
		}
	}
	return err
}
