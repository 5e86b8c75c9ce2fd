package web

import (
	"time"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/console/fleet"
	"github.com/troupehq/troupe/web/internal/draw"
)

// overview is the data of the first page.
type overview struct {
	Problems []problem     `json:"problems"`
	Audited  time.Time     `json:"audited_at,omitzero"` // when the doctor has looked
	Totals   totals        `json:"totals"`
	Rates    draw.Chart    `json:"rates"`
	Days     draw.Chart    `json:"days"`
	Waiting  draw.Chart    `json:"waiting"`
	Queues   []fleet.Queue `json:"queues"` // the fullest
	More     int           `json:"more_queues"`
	Fleet    fleet.Counts  `json:"fleet"`
	Redis    redisFacts    `json:"redis"`
	Outboxes []beat.Outbox `json:"outboxes,omitempty"`
	New      bool          `json:"-"` // nothing was ever pushed
}

// totals are the numbers of the whole Redis.
type totals struct {
	Processed  int64   `json:"processed"` // since the last reset
	Failed     int64   `json:"failed"`
	PerSecond  float64 `json:"processed_per_s"` // over the last half minute
	FailedPerS float64 `json:"failed_per_s"`
	Enqueued   int64   `json:"enqueued"`
	Busy       int     `json:"busy"`
	Slots      int     `json:"slots"`
	Retry      int64   `json:"retry"`
	Scheduled  int64   `json:"scheduled"`
	Dead       int64   `json:"dead"`
	Held       int64   `json:"held"` // by limits
}

// topQueues is how many the first page shows.
const topQueues = 8

func (r *request) overview(s *snapshot) (*page, error) {
	o := overview{Problems: r.problems(s), Audited: s.Audited, Totals: totalsOf(s), Rates: ratesOf(s), Days: s.Past.days(), Waiting: s.Past.waiting(""), Queues: s.Queues, Fleet: fleet.CountAll(s.Processes), Redis: s.Redis, Outboxes: fleet.Outboxes(s.Processes)}
	if len(o.Queues) > topQueues {
		o.Queues, o.More = o.Queues[:topQueues], len(o.Queues)-topQueues
	}
	t := o.Totals
	o.New = len(s.Queues) == 0 && t.Processed+t.Retry+t.Scheduled+t.Dead == 0
	return &page{Template: "overview", Title: "Overview", Data: o, Topic: "overview"}, nil
}

// rateSamples are those that a rate of now is the mean of: half a minute.
const rateSamples = 15

func totalsOf(s *snapshot) totals {
	t := totals{
		Processed: s.Stats.Processed, Failed: s.Stats.Failed, Enqueued: s.Stats.Enqueued,
		Retry: s.Stats.RetrySize, Scheduled: s.Stats.ScheduledSize, Dead: s.Stats.DeadSize, Held: s.Stats.HeldSize,
	}
	for _, p := range s.Processes {
		if p.Phase != fleet.Gone {
			t.Busy, t.Slots = t.Busy+p.Busy, t.Slots+p.Slots
		}
	}
	if all := s.History; len(all) > 0 {
		last := all[max(0, len(all)-rateSamples):]
		for _, h := range last {
			t.PerSecond += h.Processed / float64(len(last))
			t.FailedPerS += h.Failed / float64(len(last))
		}
	}
	return t
}

// rateCell is the span of time that a point of the chart is the mean of.
const rateCell = 20 * time.Second

// ratesOf returns the chart of runs a second.
func ratesOf(s *snapshot) (c draw.Chart) {
	c = draw.Chart{Title: "Jobs run", Unit: "a second", From: s.At.Add(-remembered), To: s.At}
	defer func() { c = c.Mark(s.Past.Marks) }()
	if len(s.History) == 0 {
		return c
	}
	// the chart begins when somebody opened a page, but shows ten minutes at least
	if first := s.History[0].At; first.After(c.From) {
		c.From = s.At.Add(-min(remembered, max(remembered/6, s.At.Sub(first))))
	}
	var done, failed []draw.Point
	for _, h := range s.History {
		done, failed = append(done, draw.Point{At: h.At, Value: h.Processed}), append(failed, draw.Point{At: h.At, Value: h.Failed})
	}
	// processes tell of their runs every ten seconds: what is finer shows their beats
	c.Series = []draw.Series{{Name: "run", Points: draw.Thin(done, rateCell)}, {Name: "failed", Points: draw.Thin(failed, rateCell)}}
	return c
}

// now makes a page function of one that tells what the sampler has seen last.
func now(tell func(*request, *snapshot) (*page, error)) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		s, err := r.snapshot()
		if err != nil {
			return nil, err
		}
		return tell(r, s)
	}
}

// snapshot is what the sampler has seen last. The page is of that time.
func (r *request) snapshot() (*snapshot, error) {
	s, err := r.sampler.snapshot(r.Context())
	r.now = s
	return s, err
}
